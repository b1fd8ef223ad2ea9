import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {languageOptions: {sourceType: "script", globals: globals.browser}},
];
