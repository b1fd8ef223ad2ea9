-- What version 8 of the schema, that of 0.2.0, holds: made by the program, and dumped by SQLite.
PRAGMA application_id = 1667331172;
PRAGMA user_version = 8;
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
INSERT INTO "counters" VALUES('list',42);
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
    is_marked INTEGER NOT NULL DEFAULT 0, -- 1: the id stays in the file's name, though
                                       -- the older entry with that name is forgotten
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    kind TEXT,                         -- one of KINDS; this and the rest: see derived
    title TEXT NOT NULL DEFAULT '',    -- base_id, or the own id where there is none
    title_id TEXT,
    number INTEGER NOT NULL DEFAULT 0, -- of the version, 0 where that is no number
    plain_name TEXT NOT NULL DEFAULT '' COLLATE NOCASE, -- which others may have too
    name TEXT NOT NULL,                -- that, or a longer one that no other has
    sort_name TEXT NOT NULL            -- the name, case folded
) STRICT;
INSERT INTO "entries" VALUES('8b54089fee8d99a0','filepath','/srv/games/Celeste [0100AAAABBBB0000][v0].nsp','nsp',143,'/srv/games',1600000000000000101,101,'v1','cccccccccccccccccccccccccccccccc','sample 101','abababababababababababababababababababababababababababababababab',143,1600000000000000101,NULL,'here',NULL,'{"name":"Celeste","description":"","version":"0","title_id":"0100AAAABBBB0000","patch":0,"complete":true}',1,'{}',0,'2023-11-14T22:14:20','scanner','base','0100AAAABBBB0000','0100AAAABBBB0000',0,'Celeste','Celeste (NSP)','celeste (nsp)');
INSERT INTO "entries" VALUES('1b3d182df7f1004c','filepath','/srv/games/Celeste [0100AAAABBBB0800][v65536].nsz','nsz',143,'/srv/games',1600000000000000102,102,'v1',NULL,'sample 102','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',1,1600000000000000102,NULL,'here',NULL,'{"name":"Celeste","description":"","version":"65536","title_id":"0100AAAABBBB0800","patch":1,"complete":true}',1,'{"description":"typed only"}',0,'2023-11-14T22:14:20','scanner','update','0100AAAABBBB0000','0100AAAABBBB0800',65536,'Celeste - Update 1','Celeste - Update 1','celeste - update 1');
INSERT INTO "entries" VALUES('e75017cace788f82','filepath','/srv/games/Celeste [0100AAAABBBB0800][v131072].nsp','nsp',200,'/srv/games',1600000000000000103,103,'v1',NULL,'sample 103',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Celeste","description":"","version":"131072","title_id":"0100AAAABBBB0800","patch":2,"complete":true}',1,'{}',0,'2023-11-14T22:14:20','scanner','update','0100AAAABBBB0000','0100AAAABBBB0800',131072,'Celeste - Update 2','Celeste - Update 2','celeste - update 2');
INSERT INTO "entries" VALUES('a3382767cbd236fa','filepath','/srv/games/Celeste - Farewell [0100AAAABBBB1001][v0].nsp','nsp',143,'/srv/games',1600000000000000104,104,'v1',NULL,'sample 104',NULL,NULL,NULL,'damaged','here',NULL,'{"name":"Celeste - Farewell","description":"","version":"0","title_id":"0100AAAABBBB1001","patch":0,"complete":false}',1,'{}',0,'2023-11-14T22:14:20','scanner','add-on','0100AAAABBBB0000','0100AAAABBBB1001',0,'Celeste - Farewell','Celeste - Farewell','celeste - farewell');
INSERT INTO "entries" VALUES('8eba7fddfa15f905','filepath','/srv/games/other/Celeste [0100AAAABBBB0000][v0].xci','xci',100,'/srv/games',1600000000000000105,105,'v1',NULL,'sample 105',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Celeste","description":"","version":"0","title_id":"0100AAAABBBB0000","patch":0}',1,'{}',0,'2023-11-14T22:14:20','scanner','base','0100AAAABBBB0000','0100AAAABBBB0000',0,'Celeste','Celeste (XCI)','celeste (xci)');
INSERT INTO "entries" VALUES('f6b3b5289e2ccd94','filepath','/srv/games/Pokémon Épée [0100CCCCDDDD0000].xci','xci',1025,'/srv/games',1600000000000000106,106,'v1',NULL,'sample 106',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Pokémon Épée","description":"","version":"","title_id":"0100CCCCDDDD0000"}',1,'{"name":"Épée","version":"7"}',0,'2023-11-14T22:14:20','scanner','base','0100CCCCDDDD0000','0100CCCCDDDD0000',7,'Épée','Épée','épée');
INSERT INTO "entries" VALUES('d9614b235de46ab6','filepath','/srv/games/A "quoted" \ name 東京.xcz','xcz',300,'/srv/games',1600000000000000107,107,'v1',NULL,'sample 107',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"A \"quoted\" \\ name 東京","description":"","version":""}',1,'{"kind":"add-on","base_id":"0100aaaabbbb0000"}',0,'2023-11-14T22:14:20','scanner','add-on','0100AAAABBBB0000',NULL,0,'A "quoted" \ name 東京 - Add-on','A "quoted" \ name 東京 - Add-on','a "quoted" \ name 東京 - add-on');
INSERT INTO "entries" VALUES('6b7a09e188c630e3','filepath','/srv/games/Broken [0100EEEEFFFF0000].nsp','nsp',70,'/srv/games',1600000000000000108,108,'v1',NULL,'sample 108',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Broken","description":"","version":"","title_id":"0100EEEEFFFF0000","complete":false}',1,'{}',0,'2023-11-14T22:14:20','scanner','base','0100EEEEFFFF0000','0100EEEEFFFF0000',0,'Broken','Broken','broken');
INSERT INTO "entries" VALUES('a93b64973cfc8897','filepath','/srv/games/Lone [0100777788880800][v65536].nsp','nsp',143,'/srv/games',1600000000000000109,109,'v1',NULL,'sample 109',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Lone","description":"","version":"65536","title_id":"0100777788880800","patch":1}',1,'{"kind":""}',0,'2023-11-14T22:14:20','scanner',NULL,'a93b64973cfc8897','0100777788880800',65536,'Lone','Lone','lone');
INSERT INTO "entries" VALUES('5110adc459f44b27','filepath','/srv/homebrew/hbmenu.nro','nro',20890,'/srv/homebrew',1600000000000000110,110,'v2',NULL,'sample 110',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Homebrew Menu","description":"","version":"3.6.0","author":"switchbrew","icon":"b9ee16a7d8fc133773a2bd4629877bd3","complete":true}',1,'{}',0,'2023-11-14T22:14:20','scanner','homebrew','5110adc459f44b27',NULL,0,'Homebrew Menu','Homebrew Menu','homebrew menu');
INSERT INTO "entries" VALUES('f7a4e0a0ccb07ae3','filepath','/srv/homebrew/plain.nro','nro',20587,'/srv/homebrew',1600000000000000111,111,'v2','dddddddddddddddddddddddddddddddd','sample 111',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"plain","description":"","version":"1.0","complete":true,"icon":"b9ee16a7d8fc133773a2bd4629877bd3"}',1,'{}',0,'2023-11-14T22:14:20','scanner','homebrew','f7a4e0a0ccb07ae3',NULL,0,'plain','plain','plain');
INSERT INTO "entries" VALUES('750f013235bbef06','filepath','/srv/games/Gone [0100111122220000].nsp','nsp',143,'/srv/games',1600000000000000112,112,'v1',NULL,'sample 112',NULL,NULL,NULL,NULL,'gone','2023-11-14T22:16:55','{"name":"Gone","description":"","version":"","title_id":"0100111122220000"}',1,'{}',0,'2023-11-14T22:14:20','scanner','base','0100111122220000','0100111122220000',0,'Gone','Gone','gone');
INSERT INTO "entries" VALUES('20398d138e4d7bb4','filepath','/srv/games/Offline [0100333344440000].nsp','nsp',143,'/srv/games',1600000000000000113,113,'v1',NULL,'sample 113',NULL,NULL,NULL,NULL,'offline',NULL,'{"name":"Offline","description":"","version":"","title_id":"0100333344440000"}',1,'{}',0,'2023-11-14T22:14:20','scanner','base','0100333344440000','0100333344440000',0,'Offline','Offline','offline');
INSERT INTO "entries" VALUES('182d7cbac174658f','url','http://mirror.example/x.nsp?a=1&b=%20','nsp',1234,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Ä link","description":"d","version":"2"}',1,'{}',0,'2023-11-14T22:14:20','anna',NULL,'182d7cbac174658f',NULL,2,'Ä link','Ä link','ä link');
INSERT INTO "entries" VALUES('a0664df1315a8aba','url','http://mirror.example/noext','',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Celeste","description":"","version":""}',1,'{}',0,'2023-11-14T22:14:20','anna',NULL,'a0664df1315a8aba',NULL,0,'Celeste','Celeste','celeste');
INSERT INTO "entries" VALUES('6018366cf658f7a7','filepath','/srv/games/two/Twin.nsp','nsp',143,'/srv/games',1600000000000000202,202,'v1',NULL,'sample 202',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Twin"}',1,'{}',1,'2023-11-14T22:18:20','scanner',NULL,'6018366cf658f7a7',NULL,0,'Twin','Twin (games/two/Twin.nsp)','twin (games/two/twin.nsp)');
INSERT INTO "entries" VALUES('317017a6205738d1','filepath','/srv/games/three/TWIN.nsp','nsp',143,'/srv/games',1600000000000000203,203,'v1',NULL,'sample 203',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"TWIN"}',1,'{}',1,'2023-11-14T22:18:20','scanner',NULL,'317017a6205738d1',NULL,0,'TWIN','TWIN (games/three/TWIN.nsp)','twin (games/three/twin.nsp)');
INSERT INTO "entries" VALUES('0b3510b0b46ee1da','filepath','/srv/games/four/Twin.nsp','nsp',143,'/srv/games',1600000000000000204,204,'v1',NULL,'sample 204',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Twin"}',1,'{}',0,'2023-11-14T22:18:20','scanner',NULL,'0b3510b0b46ee1da',NULL,0,'Twin','Twin (games/four/Twin.nsp)','twin (games/four/twin.nsp)');
INSERT INTO "entries" VALUES('230824d215ceb3a1','filepath','/srv/games/five/Twin.nsp','nsp',143,'/srv/games',1600000000000000205,205,'v1',NULL,'sample 205',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Twin"}',1,'{}',1,'2023-11-14T22:18:20','scanner',NULL,'230824d215ceb3a1',NULL,0,'Twin','Twin (games/five/Twin.nsp)','twin (games/five/twin.nsp)');
INSERT INTO "entries" VALUES('81a0d5b3ffc6e35c','filepath','/srv/games/two/Sole.nsp','nsp',143,'/srv/games',1600000000000000207,207,'v1',NULL,'sample 207',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Sole"}',1,'{}',1,'2023-11-14T22:18:20','scanner',NULL,'81a0d5b3ffc6e35c',NULL,0,'Sole','Sole','sole');
INSERT INTO "entries" VALUES('6694f229359b1548','filepath','/srv/games/Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long .nsp','nsp',143,'/srv/games',1600000000000000208,208,'v1',NULL,'sample 208',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long"}',1,'{}',0,'2023-11-14T22:18:20','scanner',NULL,'6694f229359b1548',NULL,0,'Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long','Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long (games/Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long .nsp)','long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long (games/long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long .nsp)');
INSERT INTO "entries" VALUES('07c15471a4517d6c','filepath','/srv/games/x/Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long .nsp','nsp',143,'/srv/games',1600000000000000209,209,'v1',NULL,'sample 209',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long"}',1,'{}',0,'2023-11-14T22:18:20','scanner',NULL,'07c15471a4517d6c',NULL,0,'Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long','Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long (games/x/Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long .nsp)','long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long (games/x/long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long .nsp)');
INSERT INTO "entries" VALUES('7cc661e97589ca4a','filepath','/srv/games/Pokémon Über [0100999900000000].nsp','nsp',143,'/srv/games',1600000000000000210,210,'v1',NULL,'sample 210',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Pokémon Über","title_id":"0100999900000000"}',1,'{}',0,'2023-11-14T22:18:20','scanner','base','0100999900000000','0100999900000000',0,'Pokémon Über','Pokémon Über','pokémon über');
INSERT INTO "entries" VALUES('63f65da874007cb4','filepath','/srv/games/Pokémon Über [0100999900000800][v65536].nsp','nsp',143,'/srv/games',1600000000000000211,211,'v1','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','sample 211',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"65536","name":"Pokémon Über","title_id":"0100999900000800","patch":1}',1,'{}',0,'2023-11-14T22:18:20','scanner','update','0100999900000000','0100999900000800',65536,'Pokémon Über - Update 1','Pokémon Über - Update 1','pokémon über - update 1');
INSERT INTO "entries" VALUES('92b850ad7eb72f82','filepath','/srv/homebrew/Away [0100888800000000].nsp','nsp',143,'/srv/homebrew',1600000000000000212,212,'v3',NULL,'sample 212',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Away","title_id":"0100888800000000"}',1,'{}',0,'2023-11-14T22:18:20','scanner','base','0100888800000000','0100888800000000',0,'Away','Away','away');
INSERT INTO "entries" VALUES('e5b8063831360a40','filepath','/srv/homebrew/Twin.nsp','nsp',143,'/srv/homebrew',1600000000000000213,213,'v3',NULL,'sample 213',NULL,NULL,NULL,NULL,'offline',NULL,'{"description":"","version":"","name":"Twin"}',1,'{}',0,'2023-11-14T22:18:20','scanner',NULL,'e5b8063831360a40',NULL,0,'Twin','Twin (homebrew/Twin.nsp)','twin (homebrew/twin.nsp)');
INSERT INTO "entries" VALUES('67164890d49d0ac1','url','http://mirror.example/twin','nsp',9,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Twin","description":"","version":""}',1,'{}',0,'2023-11-14T22:18:20','anna',NULL,'67164890d49d0ac1',NULL,0,'Twin','Twin','twin');
INSERT INTO "entries" VALUES('7c2f7ad016edc5d4','url','http://mirror.example/twin2','nsp',9,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Twin","description":"","version":""}',1,'{}',0,'2023-11-14T22:18:20','anna',NULL,'7c2f7ad016edc5d4',NULL,0,'Twin','Twin','twin');
CREATE TABLE icons (
    digest TEXT PRIMARY KEY,           -- of a file's icon, or of an image as `cover`
    image BLOB NOT NULL                -- a JPEG or PNG
) STRICT;
INSERT INTO "icons" VALUES('b9ee16a7d8fc133773a2bd4629877bd3',X'FFD8FF616263');
INSERT INTO "icons" VALUES('cccccccccccccccccccccccccccccccc',X'89504E470D0A1A0A616263');
INSERT INTO "icons" VALUES('ffffffffffffffffffffffffffffffff',X'89504E470D0A1A0A616263');
INSERT INTO "icons" VALUES('eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee',X'FFD8FF616263');
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    label TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the key
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    requests INTEGER NOT NULL DEFAULT 0,
    by_login INTEGER NOT NULL DEFAULT 0, -- 1: made by a client's login
    unused_since TEXT NOT NULL         -- of one that ends when it is not used
        GENERATED ALWAYS AS
        (iif(by_login, coalesce(last_used_at, created_at), '9999')) VIRTUAL,
    is_device INTEGER NOT NULL DEFAULT 0, -- 1: was paired, or has fetched a queue
    shared INTEGER NOT NULL DEFAULT 0, -- 1: every account may send to the device
    target TEXT NOT NULL DEFAULT '',   -- as its client last told: 'ready', or why not
    address TEXT NOT NULL DEFAULT '',  -- of the console, if this server serves it
    user TEXT NOT NULL DEFAULT '',     -- of the FTP server at that address
    password TEXT NOT NULL DEFAULT ''  -- of that user, in plain text
) STRICT;
INSERT INTO "keys" VALUES('f6fc42039fba3776',1,'Living room',X'C826A7DFFFAD2CBA083A12FEB70461016AF928B5F401E25130D00EFD2C367ADC','2023-11-14T22:13:20','2023-11-14T22:14:20',1,0,1,1,'ready','','','');
INSERT INTO "keys" VALUES('1bf41ef6fd6f6f6c',2,'ben''s phone',X'508A3A6D3E90298598580EF06C562B03A89D30804E7A0A1712AFC094E9AB60B5','2023-11-14T22:13:20',NULL,0,0,0,0,'','','','');
INSERT INTO "keys" VALUES('9e251905a6d98e01',2,'signed in by a client',X'37429E27EBEE64107B13792E2CB7BCA3044E0402FB9003B691EC97E418D14502','2023-11-14T22:13:20',NULL,0,1,0,0,'','','','');
INSERT INTO "keys" VALUES('c24f6aa83bf36a14',1,'Bedroom',X'03E5B42EA124BD14F5317527788892CFEE64F518194EEE080FCFA80EAE3624B1','2023-11-14T22:18:20',NULL,0,0,1,1,'','ftp://127.0.0.1:9/games','u','p');
CREATE TABLE queue (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    place INTEGER NOT NULL,            -- the smallest is first
    status TEXT NOT NULL DEFAULT 'pending', -- one of QUEUE_STATUSES
    percent REAL NOT NULL DEFAULT 0,   -- 0 to 100, when it ended; see Progress
    bytes INTEGER NOT NULL DEFAULT 0,  -- at that time
    speed INTEGER NOT NULL DEFAULT 0,  -- bytes per second
    error TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    key TEXT REFERENCES keys ON DELETE SET NULL, -- of the client that sends it
    device TEXT REFERENCES keys ON DELETE SET NULL, -- the only key that may send it
    freed_from TEXT,                   -- label of a device that it was for before
    replaces INTEGER NOT NULL DEFAULT 0, -- 1: it may replace a file on the target
    client TEXT,                       -- what that client calls itself, if it does
    ended_at TEXT,                     -- NULL while its status is an open one
    is_open INTEGER NOT NULL GENERATED ALWAYS AS (ended_at IS NULL) VIRTUAL
) STRICT;
INSERT INTO "queue" VALUES('beedd235ea2df44a',1,'750f013235bbef06',1,'pending',0.0,0,0,'','2023-11-14T22:14:30',NULL,NULL,NULL,0,NULL,NULL);
INSERT INTO "queue" VALUES('243c08600a374937',1,'20398d138e4d7bb4',2,'pending',0.0,0,0,'','2023-11-14T22:14:40',NULL,'f6fc42039fba3776',NULL,0,NULL,NULL);
INSERT INTO "queue" VALUES('541f1857238b166f',1,'8b54089fee8d99a0',3,'completed',100.0,143,0,'','2023-11-14T22:14:50','f6fc42039fba3776','f6fc42039fba3776',NULL,0,NULL,'2023-11-14T22:14:55');
INSERT INTO "queue" VALUES('f06781e6f56cf7b6',1,'1b3d182df7f1004c',4,'failed',0.0,0,0,'The cable "fell" out.','2023-11-14T22:15:05','f6fc42039fba3776',NULL,NULL,0,'one','2023-11-14T22:15:05');
INSERT INTO "queue" VALUES('0dd3e879ef669029',1,'5110adc459f44b27',5,'cancelled',0.0,0,0,'','2023-11-14T22:15:15',NULL,NULL,NULL,0,NULL,'2023-11-14T22:15:15');
INSERT INTO "queue" VALUES('a87cf1ef82609d02',2,'f6b3b5289e2ccd94',6,'pending',0.0,0,0,'','2023-11-14T22:15:25',NULL,'f6fc42039fba3776',NULL,0,NULL,NULL);
INSERT INTO "queue" VALUES('811dc2a2d36f999c',2,'182d7cbac174658f',7,'completed',0.0,0,0,'','2023-11-14T22:15:35','1bf41ef6fd6f6f6c',NULL,NULL,0,NULL,'2023-11-14T22:15:35');
INSERT INTO "queue" VALUES('74f5765e48ced1f3',1,'e75017cace788f82',8,'processing',50.5,5000,777,'','2023-11-14T22:15:55','f6fc42039fba3776',NULL,NULL,0,'one',NULL);
INSERT INTO "queue" VALUES('837cc347836c371a',2,'6018366cf658f7a7',9,'pending',0.0,0,0,'','2023-11-14T22:18:20',NULL,NULL,'Sold',0,NULL,NULL);
INSERT INTO "queue" VALUES('209a086b36e0810d',1,'81a0d5b3ffc6e35c',10,'pending',0.0,0,0,'','2023-11-14T22:18:20',NULL,'c24f6aa83bf36a14',NULL,0,NULL,NULL);
INSERT INTO "queue" VALUES('a54e6782bf11762c',1,'67164890d49d0ac1',11,'completed',100.0,9,0,'','2023-11-14T22:18:20','f6fc42039fba3776',NULL,NULL,0,NULL,'2023-11-14T22:18:20');
INSERT INTO "queue" VALUES('13e9a2000a73062d',1,'81a0d5b3ffc6e35c',12,'pending',0.0,0,0,'','2023-11-14T22:18:20',NULL,NULL,NULL,1,NULL,NULL);
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
INSERT INTO "sent" VALUES('67164890d49d0ac1',1,'','f6fc42039fba3776','2023-11-14T22:18:20');
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the cookie
    browser TEXT NOT NULL,             -- its User-Agent
    created_at TEXT NOT NULL,
    last_used_at TEXT,                 -- NULL: not since it was made
    believed_at TEXT,                  -- first use by a right clock, if made later
    dated_at TEXT NOT NULL GENERATED ALWAYS AS
        (min(created_at, coalesce(believed_at, created_at))) VIRTUAL
) STRICT;
INSERT INTO "sessions" VALUES('711d7b067f3018b6',1,X'37127B4D55C6D636FBAB627BFB592E6928EF97076E1228E168C2BC2AC4EE12C4','Firefox','2023-11-14T22:13:20','2023-11-14T22:14:20',NULL);
INSERT INTO "sessions" VALUES('796d3bc4685ca8af',2,X'2FC6C4856CD70F748F53FAD5A60FFF1A5DCA669EDF46C9C4B971BEE4795837BA','Chrome','2023-11-14T22:18:20',NULL,NULL);
CREATE TABLE title_images (            -- images that have a title id in their names
    path TEXT PRIMARY KEY,
    folder TEXT NOT NULL,              -- library folder that the image is in
    volume TEXT NOT NULL,
    title TEXT NOT NULL,
    cover TEXT NOT NULL                -- digest of path, size and mtime
) STRICT;
INSERT INTO "title_images" VALUES('/srv/games/[0100999900000000].jpg','/srv/games','v1','0100999900000000','ffffffffffffffffffffffffffffffff');
CREATE TABLE uploads (                 -- to the inbox, that are not whole yet
    id TEXT PRIMARY KEY,               -- see PART
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    name TEXT NOT NULL,                -- of the file, if it is free
    size INTEGER NOT NULL,             -- bytes
    modified INTEGER NOT NULL,         -- milliseconds, 0 where unknown
    reserved TEXT,                     -- name of the empty file that the upload will
    inode INTEGER,                     -- replace, and its inode
    UNIQUE (account, name, size, modified)
) STRICT;
INSERT INTO "uploads" VALUES('852a5fba444adf42',2,'New.nsp',1000,1699999000000,'New.nsp',77);
CREATE UNIQUE INDEX addresses_to_browse ON addresses (account) WHERE item IS NULL;
CREATE INDEX entries_listed ON entries (state, sort_name, id);
CREATE INDEX entries_source ON entries (source);
CREATE INDEX entries_folder ON entries (folder, state);
CREATE INDEX entries_title ON entries
    (title, kind, title_id, number, state, size, created_at, id);
CREATE INDEX entries_name ON entries (plain_name);
CREATE INDEX entries_cover ON entries (cover) WHERE cover IS NOT NULL;
CREATE INDEX entries_icon ON entries (facts ->> 'icon')
    WHERE facts ->> 'icon' IS NOT NULL;
CREATE INDEX title_images_title ON title_images (title, path);
CREATE VIEW parts AS SELECT *,
    iif(title = id, NULL, title) AS base_id,
    coalesce(overrides ->> 'version', facts ->> 'version', '') AS version,
    coalesce((SELECT digest FROM icons WHERE digest = cover), (
        SELECT digest FROM title_images JOIN icons ON digest = title_images.cover
        WHERE title_images.title = entries.title ORDER BY path LIMIT 1
    ), facts ->> 'icon') AS icon,
    iif((sha256_size, sha256_mtime) = (size, mtime), sha256, NULL) AS checksum,
    CASE WHEN kind = 'update' AND EXISTS (
        SELECT 1 FROM entries AS other WHERE other.title = entries.title
        AND other.kind IN ('base', 'update') AND other.state = entries.state
        AND other.number > entries.number
    ) THEN 'superseded' WHEN EXISTS (
        SELECT 1 FROM entries AS other WHERE other.title = entries.title
        AND other.kind = entries.kind AND other.title_id = entries.title_id
        AND (other.kind != 'update' OR other.number = entries.number)
        AND other.state != 'gone'
        AND (entries.state, other.number, other.size, entries.created_at, entries.id)
        > (other.state, entries.number, entries.size, other.created_at, other.id)
    ) THEN 'copy' END AS surplus
FROM entries;
CREATE VIEW known_files AS SELECT id, source AS path, folder, size, mtime, inode,
    volume, cover, sample, state, gone_at, rowid AS serial, overrides, facts_version
FROM entries WHERE type = 'filepath';
CREATE VIEW served_files AS
SELECT id, source AS path, folder, size, mtime, checksum AS sha256
FROM parts WHERE type = 'filepath' AND +state = 'here';
CREATE VIEW answers AS SELECT id, state, sort_name,
    json_object(
        'id', id, 'name', name, 'source', source, 'type', type, 'file_type', file_type,
        'size', size, 'created_at', created_at, 'created_by', created_by, 'metadata',
        json_patch(
            iif(overrides = '{}', facts, json_patch(facts, overrides)),
            json_object('name', NULL, 'icon', icon, 'kind', kind, 'base_id', base_id,
                'sha256', checksum))
    ) AS entry_json,
    json_patch('{}', json_object(
        'id', id, 'name', name, 'type', type, 'file_type', nullif(file_type, ''),
        'size', size, 'created_at', created_at, 'state', state, 'kind', kind,
        'base_id', base_id, 'title_id', title_id, 'version', nullif(version, ''),
        'patch', facts -> 'patch', 'author', nullif(facts ->> 'author', ''),
        'icon', icon, 'complete', iif(facts ->> 'complete', NULL, facts -> 'complete'),
        'part', surplus)
    ) AS page_json
FROM parts;
CREATE INDEX queue_order ON queue (account, place);
CREATE INDEX queue_entry ON queue (entry);
CREATE INDEX queue_device ON queue (device);
CREATE UNIQUE INDEX queue_open ON queue (coalesce(device, account), entry)
    WHERE is_open;
CREATE VIEW items AS                   -- of the queue, with what they send
SELECT queue.id, entry, entries.name, type, source, file_type, entries.size, state,
    queue.created_at, percent, bytes, speed, error, ended_at, place, status, is_open,
    device, freed_from, queue.key, client, queue.account AS sender, replaces,
    accounts.name AS account,
    device IN (SELECT id FROM keys WHERE shared) AND (is_open OR status = 'failed')
        AS is_shared                   -- 1: every account may see it
FROM queue JOIN entries ON entries.id = entry
JOIN accounts ON accounts.id = queue.account;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('accounts',3);
COMMIT;
