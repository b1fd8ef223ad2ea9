PRAGMA application_id = 1667331172;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    password TEXT NOT NULL,            -- see hash_password
    admin INTEGER NOT NULL,            -- 0 or 1
    created_at TEXT NOT NULL           -- UTC, YYYY-MM-DDTHH:MM:SS, as all times here
) STRICT;
INSERT INTO "accounts" VALUES(1,'anna','scrypt$16$1$1$jtu4AMEuD31YfmMRy6DeEQ==$AnkSo6zDbFK6dajUBwtZxoalXsyv8yo1/RWipgjcMMThnw3Krm7XKhnpTwyY7WAYcbOhOg9sykwmWeYx9z6e5Q==',1,'2023-11-14T22:30:00');
INSERT INTO "accounts" VALUES(2,'Ben','scrypt$16$1$1$cXUni20TYNu0TWsKLbp5uA==$Cis42gNjqCM+O4HExWHWlL1E+QKDspPkbs2AH/bDNutzQhvnwc7RPWl9+W5wvxFUOg/1miQUnCebyzofRXG+uQ==',0,'2023-11-14T22:30:00');
CREATE TABLE addresses (
    digest BLOB PRIMARY KEY,           -- SHA-256 of the token in the address
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    item TEXT UNIQUE REFERENCES queue ON DELETE CASCADE, -- NULL: to browse all
    token TEXT                         -- of an address to browse: it is shown again
) STRICT;
INSERT INTO "addresses" VALUES(X'E849534D86BA5968883610871F894E7EDEC96EF92D84C2D0D0178ADB978E2434',2,NULL,'bensownaddress');
INSERT INTO "addresses" VALUES(X'2157F7935120CAD516DB73DEDE84BA97D490B0E24DBA63F00EBF935A0D5C13CD',1,'a9afb159ad8d5b4c',NULL);
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO "counters" VALUES('catalog',7);
CREATE TABLE entries (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL CHECK (type IN ('filepath', 'url')),
    source TEXT NOT NULL,              -- absolute path, or URL
    file_type TEXT NOT NULL,
    size INTEGER NOT NULL,             -- bytes, 0 where unknown
    root TEXT,                         -- library folder that the file is in
    mtime INTEGER,                     -- nanoseconds
    inode INTEGER,
    volume TEXT,                       -- file system that the file is on
    sample TEXT,                       -- digest of size, first and last 64 KiB
    sha256 TEXT,                       -- of the content, if it was asked for,
    sha256_size INTEGER,               -- and the size and mtime it had then
    sha256_mtime INTEGER,
    state TEXT NOT NULL CHECK (state IN ('here', 'gone', 'offline')),
    gone_at TEXT,                      -- when a readable folder first lacked it
    said TEXT NOT NULL,                -- JSON: name and metadata, as the file has them
    typed TEXT NOT NULL DEFAULT '{}',  -- JSON: what an admin put over them
    sort_name TEXT NOT NULL,           -- the name, case folded
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    icon TEXT GENERATED ALWAYS AS (json_extract(said, '$.icon')) VIRTUAL,
    name TEXT NOT NULL
        GENERATED ALWAYS AS (json_extract(json_patch(said, typed), '$.name')) STORED,
    listing TEXT NOT NULL              -- JSON: the Entry of the interface
        GENERATED ALWAYS AS (json_object(
            'id', id, 'name', name, 'source', source, 'type', type,
            'file_type', file_type, 'size', size,
            'created_at', created_at, 'created_by', created_by,
            'metadata', json_patch(
                json_remove(json_patch(said, typed), '$.name'),
                CASE WHEN sha256_size = size AND sha256_mtime = mtime
                THEN json_object('sha256', sha256) ELSE '{}' END)
        )) STORED
) STRICT;
INSERT INTO "entries" VALUES('759409ffa8ebce6b','filepath','/srv/games/Gone [0100111122220000].nsp','nsp',143,'/srv/games',1600000000000000000,1531931,'b8443cf8502eef28','a389bc75528b6570f8af8f26d186f879',NULL,NULL,NULL,'gone','2023-11-14T22:30:20','{"name": "Gone", "description": "", "version": "", "title_id": "0100111122220000", "complete": true}','{}','gone','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('7d0423ee9cc95a91','filepath','/srv/games/A "quoted" \ name 東京.xcz','xcz',300,'/srv/games',1600000000000000000,1531927,'b8443cf8502eef28','0a4f8350044f50cb68ad67b02ef928b3',NULL,NULL,NULL,'here',NULL,'{"name": "A \"quoted\" \\ name \u6771\u4eac", "description": "", "version": ""}','{}','a "quoted" \ name 東京','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('86295b9365138481','filepath','/srv/games/Celeste [0100AAAABBBB0000][v0].nsp','nsp',143,'/srv/games',1600000000000000000,1531924,'b8443cf8502eef28','9a8058cfcf265131a169acd84fe79d36',NULL,NULL,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "0", "title_id": "0100AAAABBBB0000", "patch": 0, "complete": true}','{}','celeste','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('f84cae40b14a33f8','filepath','/srv/games/Pokémon Épée [0100CCCCDDDD0000].xci','xci',1025,'/srv/games',1600000000000000000,1531926,'b8443cf8502eef28','9170874466adba2fd13a6307f166c56c',NULL,NULL,NULL,'here',NULL,'{"name": "Pok\u00e9mon \u00c9p\u00e9e", "description": "", "version": "", "title_id": "0100CCCCDDDD0000", "complete": true}','{"name": "Pok\u00e9mon Sword", "description": "a \"fine\" game\n\tindeed", "version": "1.3"}','pokémon sword','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('78b068e46c11c7f7','filepath','/srv/games/Broken [0100EEEEFFFF0000].nsp','nsp',70,'/srv/games',1600000000000000000,1531928,'b8443cf8502eef28','caed0c67ea44cf1d18733fe4c88a3a74',NULL,NULL,NULL,'here',NULL,'{"name": "Broken", "description": "", "version": "", "title_id": "0100EEEEFFFF0000"}','{}','broken','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('a7f3183b8f76342c','filepath','/srv/games/Celeste [0100AAAABBBB0800][v65536].nsz','nsz',143,'/srv/games',1600000000000000000,1531925,'b8443cf8502eef28','c2636582f282ddf5fcd647317adb61aa',NULL,NULL,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "65536", "title_id": "0100AAAABBBB0800", "patch": 1, "complete": true}','{"description": "typed only"}','celeste','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('cb682ba29521b5ab','filepath','/srv/homebrew/plain.nro','nro',20587,'/srv/homebrew',1600000100000000000,1531930,'b8443cf8502eef28','401476a09cb4c0119f1776eba82c74ca','64049e5a5fd98e36096f0cb5811f628699eb46de98fe327a0c0cf2c129db7eac',20586,1600000000000000000,'here',NULL,'{"name": "Plain two", "description": "", "version": "1.2.3", "complete": true, "author": "Somebody"}','{}','plain two','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('b2b7887d7f08941e','filepath','/srv/homebrew/hbmenu.nro','nro',20890,'/srv/homebrew',1600000000000000000,1531929,'b8443cf8502eef28','7cbaa27c094e2632fc5ce651febaa83d','9ec96737f441a4650a8e4ea419b342220c76354a7a0cfdbcd64709ebee6026d4',20890,1600000000000000000,'here',NULL,'{"name": "Homebrew Menu", "description": "", "version": "3.6.0", "complete": true, "author": "switchbrew", "icon": "f011df64dafd938e17858146"}','{}','homebrew menu','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('bb0a4ae45a35546c','filepath','/srv/usb/Offline [0100333344440000].nsp','nsp',143,'/srv/usb',1600000000000000000,1531932,'b8443cf8502eef28','b352ecb8194df7a4bbe08ae9bb2996ee',NULL,NULL,NULL,'offline',NULL,'{"name": "Offline", "description": "", "version": "", "title_id": "0100333344440000", "complete": true}','{}','offline','2023-11-14T22:13:20','scanner');
INSERT INTO "entries" VALUES('375fdb3994fede30','url','http://mirror.example/x.nsp?a=1&b=%20','nsp',1234,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name": "\u00c4 link", "description": "d", "version": "2"}','{}','ä link','2023-11-14T22:30:00','anna');
CREATE TABLE icons (
    digest TEXT PRIMARY KEY,           -- as the entries' metadata.icon has it
    jpeg BLOB NOT NULL
) STRICT;
INSERT INTO "icons" VALUES('f011df64dafd938e17858146',X'FFD8FFE06120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C20706963747572656120736D616C6C2070696374757265');
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    label TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,       -- SHA-256 of the key
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    requests INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO "keys" VALUES('50d1495325f6db89',1,'switch',X'C826A7DFFFAD2CBA083A12FEB70461016AF928B5F401E25130D00EFD2C367ADC','2023-11-14T22:30:00','2023-11-14T22:30:00',1);
INSERT INTO "keys" VALUES('0efb9446ad8ea8c4',2,'ben''s phone',X'508A3A6D3E90298598580EF06C562B03A89D30804E7A0A1712AFC094E9AB60B5','2023-11-14T22:30:00','2023-11-14T22:37:30',1);
CREATE TABLE queue (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    place INTEGER NOT NULL,            -- the smallest is first
    status TEXT NOT NULL DEFAULT 'pending' CHECK (
        status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    percent REAL NOT NULL DEFAULT 0,   -- 0 to 100
    bytes INTEGER NOT NULL DEFAULT 0,
    speed INTEGER NOT NULL DEFAULT 0,  -- bytes per second
    error TEXT NOT NULL DEFAULT '',
    cleared INTEGER NOT NULL DEFAULT 0, -- 1: only kept to tell what was sent before
    created_at TEXT NOT NULL,
    reported_at TEXT,                  -- last report of the client that works on it
    client TEXT                        -- what that client calls itself, if it does
) STRICT;
INSERT INTO "queue" VALUES('9b841b84c08ea548',1,'759409ffa8ebce6b',1,'pending',0.0,0,0,'',0,'2023-11-14T22:30:10',NULL,NULL);
INSERT INTO "queue" VALUES('cc0e22912afa9892',1,'bb0a4ae45a35546c',2,'pending',0.0,0,0,'',0,'2023-11-14T22:30:20',NULL,NULL);
INSERT INTO "queue" VALUES('a9afb159ad8d5b4c',1,'a7f3183b8f76342c',3,'processing',50.0,5000,777,'',0,'2023-11-14T22:30:30','2023-11-14T22:35:00','switch-1');
INSERT INTO "queue" VALUES('fb0275dc1b916680',1,'b2b7887d7f08941e',4,'completed',100.0,0,0,'',0,'2023-11-14T22:30:40','2023-11-14T22:30:40',NULL);
INSERT INTO "queue" VALUES('c06c0e1be16375ad',1,'cb682ba29521b5ab',5,'failed',0.0,0,0,'The cable "fell" out.',0,'2023-11-14T22:30:50','2023-11-14T22:30:50',NULL);
INSERT INTO "queue" VALUES('c6b559012ba666c5',1,'f84cae40b14a33f8',6,'cancelled',1.0,0,0,'',0,'2023-11-14T22:31:00','2023-11-14T22:31:00',NULL);
INSERT INTO "queue" VALUES('acde92ddb5e97711',1,'375fdb3994fede30',0,'pending',0.0,0,0,'',0,'2023-11-14T22:31:10',NULL,NULL);
INSERT INTO "queue" VALUES('628dc5444ec172f8',2,'375fdb3994fede30',1,'completed',0.0,0,0,'',1,'2023-11-14T22:31:20','2023-11-14T22:31:20',NULL);
INSERT INTO "queue" VALUES('0b0c3827273f855c',2,'f84cae40b14a33f8',2,'processing',0.0,0,0,'',0,'2023-11-14T22:31:30','2023-11-14T22:31:30',NULL);
INSERT INTO "queue" VALUES('2cd90e54eee70a8a',2,'78b068e46c11c7f7',3,'pending',0.0,0,0,'',0,'2023-11-14T22:35:00',NULL,NULL);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    digest BLOB NOT NULL UNIQUE,       -- SHA-256 of the cookie
    browser TEXT NOT NULL,             -- its User-Agent
    created_at TEXT NOT NULL
) STRICT;
INSERT INTO "sessions" VALUES('43a048fc2bcb8e91',1,X'37127B4D55C6D636FBAB627BFB592E6928EF97076E1228E168C2BC2AC4EE12C4','Firefox','2023-11-14T22:30:00');
CREATE INDEX entries_listed ON entries (state, sort_name, id);
CREATE INDEX entries_icon ON entries (icon) WHERE icon IS NOT NULL;
CREATE INDEX queue_order ON queue (account, place);
CREATE INDEX queue_entry ON queue (entry);
CREATE UNIQUE INDEX queue_open ON queue (account, entry)
    WHERE status IN ('pending', 'processing');
CREATE UNIQUE INDEX addresses_to_browse ON addresses (account) WHERE item IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('accounts',3);
COMMIT;
