"""Reading QR codes back, with another program than the one that draws them."""

import base64
import re
from collections.abc import Sequence
from typing import Any

import zxingcpp

PIXELS = """async url => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const {data} = context.getImageData(0, 0, image.width, image.height);
  const greens = Array.from(data.filter((_, n) => n % 4 == 1));
  return [image.width, greens.map(green => String.fromCharCode(green)).join("")];
}"""


def read(rows: Sequence[bytes]) -> list[str]:
    """Return the texts of the codes in an image of bytes, 255 for white. A code must be
    dark on light, and a picture is not turned."""
    shape = [len(rows), len(rows[0])]
    image: Any = memoryview(b"".join(rows)).cast("B", shape)
    codes = zxingcpp.read_barcodes(image, try_invert=False, try_rotate=False)
    return [code.text for code in codes]


def read_path(code: dict[str, Any], scale: int = 4) -> list[str]:
    """Return the texts of a code as the page is sent it, drawn by hand."""
    rows = [bytearray(b"\xff" * code["size"]) for _ in range(code["size"])]
    drawn = re.sub(r"M(\d+) (\d+)h(\d+)v1h-\3z", "", code["path"])
    assert drawn == ""
    for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)", code["path"]):
        rows[int(y)][int(x) : int(x) + int(length)] = bytes(int(length))
    wide = [bytes(byte for byte in row for _ in range(scale)) for row in rows]
    return read([row for row in wide for _ in range(scale)])


def read_picture(page: Any, target: Any) -> list[str]:
    """Return the texts of the codes on a picture of a part of a page."""
    image = base64.b64encode(target.screenshot()).decode()
    other = page.context.new_page()
    width, pixels = other.evaluate(PIXELS, f"data:image/png;base64,{image}")
    other.close()
    rows = range(0, len(pixels), width)
    return read([pixels[start : start + width].encode("latin-1") for start in rows])
