-- What version 4 of the schema holds: made by the program, and dumped by SQLite.
PRAGMA application_id = 1667331172;
PRAGMA user_version = 4;
BEGIN TRANSACTION;
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    password TEXT NOT NULL,            -- see hash_password
    admin INTEGER NOT NULL,            -- 0 or 1
    created_at TEXT NOT NULL           -- UTC, YYYY-MM-DDTHH:MM:SS, as all times here
) STRICT;
INSERT INTO "accounts" VALUES(1,'anna','scrypt$16$1$1$c2FsdA==$aGFzaA==',1,'2023-11-14T22:13:20');
INSERT INTO "accounts" VALUES(2,'Ben','scrypt$16$1$1$c2FsdA==$aGFzaA==',0,'2023-11-14T22:13:20');
CREATE TABLE addresses (
    digest BLOB PRIMARY KEY,           -- hash_token of the token in the address
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    item TEXT UNIQUE REFERENCES queue ON DELETE CASCADE, -- NULL: the account's own
    token TEXT                         -- only of the account's own: the page shows it
) STRICT;
INSERT INTO "addresses" VALUES(X'2157F7935120CAD516DB73DEDE84BA97D490B0E24DBA63F00EBF935A0D5C13CD',1,'74f5765e48ced1f3',NULL);
INSERT INTO "addresses" VALUES(X'8817C65DD6C5327687200BB9D63BFBFA026E05BBF201B7B3C96609A5B22AC459',2,NULL,'abcdefghjkmnpqrstuvw');
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO "counters" VALUES('list',22);
CREATE TABLE entries (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL CHECK (type IN ('filepath', 'url')),
    source TEXT NOT NULL,              -- absolute path, or URL
    file_type TEXT NOT NULL,
    size INTEGER NOT NULL,             -- bytes, 0 where unknown
    folder TEXT,                       -- library folder that the file is in
    mtime INTEGER,                     -- nanoseconds
    inode INTEGER,
    volume TEXT,                       -- file system that the file is on
    cover TEXT,                        -- digest of path, size, mtime of its cover
    sample TEXT,                       -- digest of size, first and last 64 KiB
    sha256 TEXT,                       -- of the content, once somebody asked for it
    sha256_size INTEGER,               -- the file's size and mtime at that time
    sha256_mtime INTEGER,
    fault TEXT,                        -- 'damaged' or 'unreadable', as verify found it
    state TEXT NOT NULL CHECK (state IN ('here', 'gone', 'offline')),
    gone_at TEXT,                      -- when a scan first missed it
    facts TEXT NOT NULL,               -- JSON: name and metadata that the file tells
    facts_version INTEGER NOT NULL,    -- FACTS_VERSION of the program that read them
    overrides TEXT NOT NULL DEFAULT '{}', -- JSON: what an admin put over the facts
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    icon TEXT,                         -- this and the rest: made by derived_columns
    kind TEXT,                         -- one of KINDS, NULL where it is not known
    title TEXT NOT NULL DEFAULT '',    -- base_id, or the own id where there is none
    title_id TEXT,
    number INTEGER NOT NULL DEFAULT 0, -- of the version, 0 where that is no number
    plain_name TEXT NOT NULL DEFAULT '' COLLATE NOCASE, -- which others may have too
    name TEXT NOT NULL,                -- that, or a longer one that no other has
    sort_name TEXT NOT NULL,           -- the name, case folded
    entry_json TEXT NOT NULL,          -- the Entry of the interface
    page_json TEXT NOT NULL DEFAULT '' -- the same, as the page's list has it
) STRICT;
INSERT INTO "entries" VALUES('8b54089fee8d99a0','filepath','/srv/games/Celeste [0100AAAABBBB0000][v0].nsp','nsp',143,'/srv/games',1600000000000000101,101,'v1','cccccccccccccccccccccccccccccccc','sample 101','abababababababababababababababababababababababababababababababab',143,1600000000000000101,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "0", "title_id": "0100AAAABBBB0000", "patch": 0, "complete": true}',1,'{}','2023-11-14T22:14:20','scanner','cccccccccccccccccccccccccccccccc','base','0100AAAABBBB0000','0100AAAABBBB0000',0,'Celeste','Celeste (NSP)','celeste (nsp)','{"id":"8b54089fee8d99a0","name":"Celeste (NSP)","source":"/srv/games/Celeste [0100AAAABBBB0000][v0].nsp","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"0","title_id":"0100AAAABBBB0000","patch":0,"complete":true,"icon":"cccccccccccccccccccccccccccccccc","kind":"base","base_id":"0100AAAABBBB0000","sha256":"abababababababababababababababababababababababababababababababab"}}','{"id":"8b54089fee8d99a0","name":"Celeste (NSP)","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","state":"here","kind":"base","base_id":"0100AAAABBBB0000","title_id":"0100AAAABBBB0000","version":"0","patch":0,"icon":"cccccccccccccccccccccccccccccccc"}');
INSERT INTO "entries" VALUES('1b3d182df7f1004c','filepath','/srv/games/Celeste [0100AAAABBBB0800][v65536].nsz','nsz',143,'/srv/games',1600000000000000102,102,'v1',NULL,'sample 102','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',1,1600000000000000102,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "65536", "title_id": "0100AAAABBBB0800", "patch": 1, "complete": true}',1,'{"description": "typed only"}','2023-11-14T22:14:20','scanner',NULL,'update','0100AAAABBBB0000','0100AAAABBBB0800',65536,'Celeste - Update 1','Celeste - Update 1','celeste - update 1','{"id":"1b3d182df7f1004c","name":"Celeste - Update 1","source":"/srv/games/Celeste [0100AAAABBBB0800][v65536].nsz","type":"filepath","file_type":"nsz","size":143,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"typed only","version":"65536","title_id":"0100AAAABBBB0800","patch":1,"complete":true,"kind":"update","base_id":"0100AAAABBBB0000"}}','{"id":"1b3d182df7f1004c","name":"Celeste - Update 1","type":"filepath","file_type":"nsz","size":143,"created_at":"2023-11-14T22:14:20","state":"here","kind":"update","base_id":"0100AAAABBBB0000","title_id":"0100AAAABBBB0800","version":"65536","patch":1}');
INSERT INTO "entries" VALUES('e75017cace788f82','filepath','/srv/games/Celeste [0100AAAABBBB0800][v131072].nsp','nsp',200,'/srv/games',1600000000000000103,103,'v1',NULL,'sample 103',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "131072", "title_id": "0100AAAABBBB0800", "patch": 2, "complete": true}',1,'{}','2023-11-14T22:14:20','scanner',NULL,'update','0100AAAABBBB0000','0100AAAABBBB0800',131072,'Celeste - Update 2','Celeste - Update 2','celeste - update 2','{"id":"e75017cace788f82","name":"Celeste - Update 2","source":"/srv/games/Celeste [0100AAAABBBB0800][v131072].nsp","type":"filepath","file_type":"nsp","size":200,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"131072","title_id":"0100AAAABBBB0800","patch":2,"complete":true,"kind":"update","base_id":"0100AAAABBBB0000"}}','{"id":"e75017cace788f82","name":"Celeste - Update 2","type":"filepath","file_type":"nsp","size":200,"created_at":"2023-11-14T22:14:20","state":"here","kind":"update","base_id":"0100AAAABBBB0000","title_id":"0100AAAABBBB0800","version":"131072","patch":2}');
INSERT INTO "entries" VALUES('a3382767cbd236fa','filepath','/srv/games/Celeste - Farewell [0100AAAABBBB1001][v0].nsp','nsp',143,'/srv/games',1600000000000000104,104,'v1',NULL,'sample 104',NULL,NULL,NULL,'damaged','here',NULL,'{"name": "Celeste - Farewell", "description": "", "version": "0", "title_id": "0100AAAABBBB1001", "patch": 0, "complete": false}',1,'{}','2023-11-14T22:14:20','scanner',NULL,'add-on','0100AAAABBBB0000','0100AAAABBBB1001',0,'Celeste - Farewell','Celeste - Farewell','celeste - farewell','{"id":"a3382767cbd236fa","name":"Celeste - Farewell","source":"/srv/games/Celeste - Farewell [0100AAAABBBB1001][v0].nsp","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"0","title_id":"0100AAAABBBB1001","patch":0,"complete":false,"kind":"add-on","base_id":"0100AAAABBBB0000"}}','{"id":"a3382767cbd236fa","name":"Celeste - Farewell","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","state":"here","kind":"add-on","base_id":"0100AAAABBBB0000","title_id":"0100AAAABBBB1001","version":"0","patch":0,"complete":false}');
INSERT INTO "entries" VALUES('8eba7fddfa15f905','filepath','/srv/games/other/Celeste [0100AAAABBBB0000][v0].xci','xci',100,'/srv/games',1600000000000000105,105,'v1',NULL,'sample 105',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "0", "title_id": "0100AAAABBBB0000", "patch": 0}',1,'{}','2023-11-14T22:14:20','scanner',NULL,'base','0100AAAABBBB0000','0100AAAABBBB0000',0,'Celeste','Celeste (XCI)','celeste (xci)','{"id":"8eba7fddfa15f905","name":"Celeste (XCI)","source":"/srv/games/other/Celeste [0100AAAABBBB0000][v0].xci","type":"filepath","file_type":"xci","size":100,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"0","title_id":"0100AAAABBBB0000","patch":0,"kind":"base","base_id":"0100AAAABBBB0000"}}','{"id":"8eba7fddfa15f905","name":"Celeste (XCI)","type":"filepath","file_type":"xci","size":100,"created_at":"2023-11-14T22:14:20","state":"here","kind":"base","base_id":"0100AAAABBBB0000","title_id":"0100AAAABBBB0000","version":"0","patch":0}');
INSERT INTO "entries" VALUES('f6b3b5289e2ccd94','filepath','/srv/games/Pokémon Épée [0100CCCCDDDD0000].xci','xci',1025,'/srv/games',1600000000000000106,106,'v1',NULL,'sample 106',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "Pok\u00e9mon \u00c9p\u00e9e", "description": "", "version": "", "title_id": "0100CCCCDDDD0000"}',1,'{"name": "\u00c9p\u00e9e", "version": "7"}','2023-11-14T22:14:20','scanner',NULL,'base','0100CCCCDDDD0000','0100CCCCDDDD0000',7,'Épée','Épée','épée','{"id":"f6b3b5289e2ccd94","name":"Épée","source":"/srv/games/Pokémon Épée [0100CCCCDDDD0000].xci","type":"filepath","file_type":"xci","size":1025,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"7","title_id":"0100CCCCDDDD0000","kind":"base","base_id":"0100CCCCDDDD0000"}}','{"id":"f6b3b5289e2ccd94","name":"Épée","type":"filepath","file_type":"xci","size":1025,"created_at":"2023-11-14T22:14:20","state":"here","kind":"base","base_id":"0100CCCCDDDD0000","title_id":"0100CCCCDDDD0000","version":"7"}');
INSERT INTO "entries" VALUES('d9614b235de46ab6','filepath','/srv/games/A "quoted" \ name 東京.xcz','xcz',300,'/srv/games',1600000000000000107,107,'v1',NULL,'sample 107',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "A \"quoted\" \\ name \u6771\u4eac", "description": "", "version": ""}',1,'{"kind": "add-on", "base_id": "0100aaaabbbb0000"}','2023-11-14T22:14:20','scanner',NULL,'add-on','0100AAAABBBB0000',NULL,0,'A "quoted" \ name 東京 - Add-on','A "quoted" \ name 東京 - Add-on','a "quoted" \ name 東京 - add-on','{"id":"d9614b235de46ab6","name":"A \"quoted\" \\ name 東京 - Add-on","source":"/srv/games/A \"quoted\" \\ name 東京.xcz","type":"filepath","file_type":"xcz","size":300,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"","kind":"add-on","base_id":"0100AAAABBBB0000"}}','{"id":"d9614b235de46ab6","name":"A \"quoted\" \\ name 東京 - Add-on","type":"filepath","file_type":"xcz","size":300,"created_at":"2023-11-14T22:14:20","state":"here","kind":"add-on","base_id":"0100AAAABBBB0000"}');
INSERT INTO "entries" VALUES('6b7a09e188c630e3','filepath','/srv/games/Broken [0100EEEEFFFF0000].nsp','nsp',70,'/srv/games',1600000000000000108,108,'v1',NULL,'sample 108',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "Broken", "description": "", "version": "", "title_id": "0100EEEEFFFF0000", "complete": false}',1,'{}','2023-11-14T22:14:20','scanner',NULL,'base','0100EEEEFFFF0000','0100EEEEFFFF0000',0,'Broken','Broken','broken','{"id":"6b7a09e188c630e3","name":"Broken","source":"/srv/games/Broken [0100EEEEFFFF0000].nsp","type":"filepath","file_type":"nsp","size":70,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"","title_id":"0100EEEEFFFF0000","complete":false,"kind":"base","base_id":"0100EEEEFFFF0000"}}','{"id":"6b7a09e188c630e3","name":"Broken","type":"filepath","file_type":"nsp","size":70,"created_at":"2023-11-14T22:14:20","state":"here","kind":"base","base_id":"0100EEEEFFFF0000","title_id":"0100EEEEFFFF0000","complete":false}');
INSERT INTO "entries" VALUES('a93b64973cfc8897','filepath','/srv/games/Lone [0100777788880800][v65536].nsp','nsp',143,'/srv/games',1600000000000000109,109,'v1',NULL,'sample 109',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "Lone", "description": "", "version": "65536", "title_id": "0100777788880800", "patch": 1}',1,'{"kind": ""}','2023-11-14T22:14:20','scanner',NULL,NULL,'a93b64973cfc8897','0100777788880800',65536,'Lone','Lone','lone','{"id":"a93b64973cfc8897","name":"Lone","source":"/srv/games/Lone [0100777788880800][v65536].nsp","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"65536","title_id":"0100777788880800","patch":1}}','{"id":"a93b64973cfc8897","name":"Lone","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","state":"here","title_id":"0100777788880800","version":"65536","patch":1}');
INSERT INTO "entries" VALUES('5110adc459f44b27','filepath','/srv/homebrew/hbmenu.nro','nro',20890,'/srv/homebrew',1600000000000000110,110,'v2',NULL,'sample 110',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "Homebrew Menu", "description": "", "version": "3.6.0", "author": "switchbrew", "icon": "b9ee16a7d8fc133773a2bd4629877bd3", "complete": true}',1,'{}','2023-11-14T22:14:20','scanner','b9ee16a7d8fc133773a2bd4629877bd3','homebrew','5110adc459f44b27',NULL,0,'Homebrew Menu','Homebrew Menu','homebrew menu','{"id":"5110adc459f44b27","name":"Homebrew Menu","source":"/srv/homebrew/hbmenu.nro","type":"filepath","file_type":"nro","size":20890,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"3.6.0","author":"switchbrew","icon":"b9ee16a7d8fc133773a2bd4629877bd3","complete":true,"kind":"homebrew"}}','{"id":"5110adc459f44b27","name":"Homebrew Menu","type":"filepath","file_type":"nro","size":20890,"created_at":"2023-11-14T22:14:20","state":"here","kind":"homebrew","version":"3.6.0","author":"switchbrew","icon":"b9ee16a7d8fc133773a2bd4629877bd3"}');
INSERT INTO "entries" VALUES('f7a4e0a0ccb07ae3','filepath','/srv/homebrew/plain.nro','nro',20587,'/srv/homebrew',1600000000000000111,111,'v2','dddddddddddddddddddddddddddddddd','sample 111',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "plain", "description": "", "version": "1.0", "complete": true, "icon": "b9ee16a7d8fc133773a2bd4629877bd3"}',1,'{}','2023-11-14T22:14:20','scanner','b9ee16a7d8fc133773a2bd4629877bd3','homebrew','f7a4e0a0ccb07ae3',NULL,0,'plain','plain','plain','{"id":"f7a4e0a0ccb07ae3","name":"plain","source":"/srv/homebrew/plain.nro","type":"filepath","file_type":"nro","size":20587,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"1.0","complete":true,"icon":"b9ee16a7d8fc133773a2bd4629877bd3","kind":"homebrew"}}','{"id":"f7a4e0a0ccb07ae3","name":"plain","type":"filepath","file_type":"nro","size":20587,"created_at":"2023-11-14T22:14:20","state":"here","kind":"homebrew","version":"1.0","icon":"b9ee16a7d8fc133773a2bd4629877bd3"}');
INSERT INTO "entries" VALUES('750f013235bbef06','filepath','/srv/games/Gone [0100111122220000].nsp','nsp',143,'/srv/games',1600000000000000112,112,'v1',NULL,'sample 112',NULL,NULL,NULL,NULL,'gone','2023-11-14T22:16:55','{"name": "Gone", "description": "", "version": "", "title_id": "0100111122220000"}',1,'{}','2023-11-14T22:14:20','scanner',NULL,'base','0100111122220000','0100111122220000',0,'Gone','Gone','gone','{"id":"750f013235bbef06","name":"Gone","source":"/srv/games/Gone [0100111122220000].nsp","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"","title_id":"0100111122220000","kind":"base","base_id":"0100111122220000"}}','{"id":"750f013235bbef06","name":"Gone","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","state":"gone","kind":"base","base_id":"0100111122220000","title_id":"0100111122220000"}');
INSERT INTO "entries" VALUES('20398d138e4d7bb4','filepath','/srv/games/Offline [0100333344440000].nsp','nsp',143,'/srv/games',1600000000000000113,113,'v1',NULL,'sample 113',NULL,NULL,NULL,NULL,'offline',NULL,'{"name": "Offline", "description": "", "version": "", "title_id": "0100333344440000"}',1,'{}','2023-11-14T22:14:20','scanner',NULL,'base','0100333344440000','0100333344440000',0,'Offline','Offline','offline','{"id":"20398d138e4d7bb4","name":"Offline","source":"/srv/games/Offline [0100333344440000].nsp","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","created_by":"scanner","metadata":{"description":"","version":"","title_id":"0100333344440000","kind":"base","base_id":"0100333344440000"}}','{"id":"20398d138e4d7bb4","name":"Offline","type":"filepath","file_type":"nsp","size":143,"created_at":"2023-11-14T22:14:20","state":"offline","kind":"base","base_id":"0100333344440000","title_id":"0100333344440000"}');
INSERT INTO "entries" VALUES('182d7cbac174658f','url','http://mirror.example/x.nsp?a=1&b=%20','nsp',1234,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name": "\u00c4 link", "description": "d", "version": "2"}',1,'{}','2023-11-14T22:14:20','anna',NULL,NULL,'182d7cbac174658f',NULL,2,'Ä link','Ä link','ä link','{"id":"182d7cbac174658f","name":"Ä link","source":"http://mirror.example/x.nsp?a=1&b=%20","type":"url","file_type":"nsp","size":1234,"created_at":"2023-11-14T22:14:20","created_by":"anna","metadata":{"description":"d","version":"2"}}','{"id":"182d7cbac174658f","name":"Ä link","type":"url","file_type":"nsp","size":1234,"created_at":"2023-11-14T22:14:20","state":"here","version":"2"}');
INSERT INTO "entries" VALUES('a0664df1315a8aba','url','http://mirror.example/noext','',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": ""}',1,'{}','2023-11-14T22:14:20','anna',NULL,NULL,'a0664df1315a8aba',NULL,0,'Celeste','Celeste','celeste','{"id":"a0664df1315a8aba","name":"Celeste","source":"http://mirror.example/noext","type":"url","file_type":"","size":0,"created_at":"2023-11-14T22:14:20","created_by":"anna","metadata":{"description":"","version":""}}','{"id":"a0664df1315a8aba","name":"Celeste","type":"url","size":0,"created_at":"2023-11-14T22:14:20","state":"here"}');
CREATE TABLE icons (
    digest TEXT PRIMARY KEY,           -- of a file's icon, or entries.cover
    image BLOB NOT NULL                -- a JPEG or PNG
) STRICT;
INSERT INTO "icons" VALUES('b9ee16a7d8fc133773a2bd4629877bd3',X'FFD8FF616263');
INSERT INTO "icons" VALUES('cccccccccccccccccccccccccccccccc',X'89504E470D0A1A0A616263');
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    label TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the key
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    requests INTEGER NOT NULL DEFAULT 0,
    by_login INTEGER NOT NULL DEFAULT 0, -- 1: made by a client's login, see KEY_LIVES
    is_device INTEGER NOT NULL DEFAULT 0, -- 1: was paired, or has fetched a queue
    shared INTEGER NOT NULL DEFAULT 0, -- 1: every account may send to the device
    target TEXT NOT NULL DEFAULT ''    -- as its client last told: 'ready', or why not
) STRICT;
INSERT INTO "keys" VALUES('f6fc42039fba3776',1,'Living room',X'C826A7DFFFAD2CBA083A12FEB70461016AF928B5F401E25130D00EFD2C367ADC','2023-11-14T22:13:20','2023-11-14T22:14:20',1,0,1,1,'ready');
INSERT INTO "keys" VALUES('1bf41ef6fd6f6f6c',2,'ben''s phone',X'508A3A6D3E90298598580EF06C562B03A89D30804E7A0A1712AFC094E9AB60B5','2023-11-14T22:13:20',NULL,0,0,0,0,'');
INSERT INTO "keys" VALUES('9e251905a6d98e01',2,'signed in by a client',X'37429E27EBEE64107B13792E2CB7BCA3044E0402FB9003B691EC97E418D14502','2023-11-14T22:13:20',NULL,0,1,0,0,'');
CREATE TABLE queue (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    place INTEGER NOT NULL,            -- the smallest is first
    status TEXT NOT NULL DEFAULT 'pending' CHECK (    -- see TRANSITIONS
        status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    is_open INTEGER NOT NULL
        GENERATED ALWAYS AS (status IN ('pending', 'processing')) VIRTUAL,
    percent REAL NOT NULL DEFAULT 0,   -- 0 to 100
    bytes INTEGER NOT NULL DEFAULT 0,
    speed INTEGER NOT NULL DEFAULT 0,  -- bytes per second
    error TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    reported_at TEXT,                  -- last report of the client that sends it
    key TEXT REFERENCES keys ON DELETE SET NULL, -- of that client
    device TEXT REFERENCES keys ON DELETE SET NULL, -- the only key that may send it
    freed_from TEXT,                   -- label of a device that it was for before
    client TEXT,                       -- what that client calls itself, if it does
    ended_at TEXT                      -- when it was completed, failed or cancelled
) STRICT;
INSERT INTO "queue" VALUES('beedd235ea2df44a',1,'750f013235bbef06',1,'pending',0.0,0,0,'','2023-11-14T22:14:30',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "queue" VALUES('243c08600a374937',1,'20398d138e4d7bb4',2,'pending',0.0,0,0,'','2023-11-14T22:14:40',NULL,NULL,'f6fc42039fba3776',NULL,NULL,NULL);
INSERT INTO "queue" VALUES('541f1857238b166f',1,'8b54089fee8d99a0',3,'completed',100.0,143,0,'','2023-11-14T22:14:50','2023-11-14T22:14:55','f6fc42039fba3776','f6fc42039fba3776',NULL,NULL,'2023-11-14T22:14:55');
INSERT INTO "queue" VALUES('f06781e6f56cf7b6',1,'1b3d182df7f1004c',4,'failed',0.0,0,0,'The cable "fell" out.','2023-11-14T22:15:05','2023-11-14T22:15:05','f6fc42039fba3776',NULL,NULL,'one','2023-11-14T22:15:05');
INSERT INTO "queue" VALUES('0dd3e879ef669029',1,'5110adc459f44b27',5,'cancelled',0.0,0,0,'','2023-11-14T22:15:15',NULL,NULL,NULL,NULL,NULL,'2023-11-14T22:15:15');
INSERT INTO "queue" VALUES('a87cf1ef82609d02',2,'f6b3b5289e2ccd94',6,'pending',0.0,0,0,'','2023-11-14T22:15:25',NULL,NULL,'f6fc42039fba3776',NULL,NULL,NULL);
INSERT INTO "queue" VALUES('811dc2a2d36f999c',2,'182d7cbac174658f',7,'completed',0.0,0,0,'','2023-11-14T22:15:35','2023-11-14T22:15:35','1bf41ef6fd6f6f6c',NULL,NULL,NULL,'2023-11-14T22:15:35');
INSERT INTO "queue" VALUES('74f5765e48ced1f3',1,'e75017cace788f82',8,'processing',50.5,5000,777,'','2023-11-14T22:15:55','2023-11-14T22:15:55','f6fc42039fba3776',NULL,NULL,'one',NULL);
CREATE TABLE scan_request (            -- at most one row, of the command scan
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('asked', 'running', 'done')),
    report TEXT NOT NULL               -- how far the service is, or what changed
) STRICT;
INSERT INTO "scan_request" VALUES(1,'done','nothing changed');
CREATE TABLE sent (                    -- outlives the queue's items
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    version TEXT NOT NULL,             -- metadata.version of the entry at that time
    device TEXT NOT NULL DEFAULT '',   -- id of its key, which may be revoked; '': none
    sent_at TEXT NOT NULL,             -- when it was completed last
    PRIMARY KEY (entry, account, version, device)
) STRICT;
INSERT INTO "sent" VALUES('8b54089fee8d99a0',1,'0','f6fc42039fba3776','2023-11-14T22:14:55');
INSERT INTO "sent" VALUES('182d7cbac174658f',2,'2','','2023-11-14T22:15:35');
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the cookie
    browser TEXT NOT NULL,             -- its User-Agent
    created_at TEXT NOT NULL,
    last_used_at TEXT                  -- NULL: not since it was made
) STRICT;
INSERT INTO "sessions" VALUES('711d7b067f3018b6',1,X'37127B4D55C6D636FBAB627BFB592E6928EF97076E1228E168C2BC2AC4EE12C4','Firefox','2023-11-14T22:13:20','2023-11-14T22:14:20');
CREATE INDEX entries_listed ON entries (state, sort_name, id);
CREATE INDEX entries_source ON entries (source);
CREATE INDEX entries_icon ON entries (icon) WHERE icon IS NOT NULL;
CREATE INDEX entries_title ON entries
    (title, kind, title_id, number, state, size, created_at, id);
CREATE INDEX entries_name ON entries (plain_name);
CREATE INDEX entries_cover ON entries (facts ->> '$.icon') WHERE cover IS NOT NULL;
CREATE INDEX queue_order ON queue (account, place);
CREATE INDEX queue_entry ON queue (entry);
CREATE INDEX queue_device ON queue (device);
CREATE UNIQUE INDEX queue_open ON queue (coalesce(device, account), entry)
    WHERE is_open;
CREATE UNIQUE INDEX addresses_to_browse ON addresses (account) WHERE item IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('accounts',3);
COMMIT;
