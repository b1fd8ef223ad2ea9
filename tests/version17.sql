-- What version 17 of the schema, that of 0.4.0, holds: made by the program, and dumped by SQLite.
PRAGMA application_id = 1667331172;
PRAGMA user_version = 17;
BEGIN TRANSACTION;
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    password TEXT NOT NULL,            -- see hash_password
    admin INTEGER NOT NULL,            -- 0 or 1
    created_at TEXT NOT NULL,          -- UTC, YYYY-MM-DDTHH:MM:SS, as all times here
    age INTEGER CHECK (age IN (3, 7, 12, 16)) -- NULL: it sees every title
) STRICT;
INSERT INTO "accounts" VALUES(1,'anna','scrypt$16$1$1$c2FsdA==$aGFzaA==',1,'2023-11-14T22:13:20',NULL);
INSERT INTO "accounts" VALUES(2,'Ben','scrypt$16$1$1$c2FsdA==$aGFzaA==',0,'2023-11-14T22:13:20',NULL);
INSERT INTO "accounts" VALUES(3,'kid','scrypt$16$1$1$c2FsdA==$aGFzaA==',0,'2025-11-24T16:00:00',7);
INSERT INTO "accounts" VALUES(4,'tot','scrypt$16$1$1$c2FsdA==$aGFzaA==',0,'2025-11-24T16:00:00',3);
INSERT INTO "accounts" VALUES(5,'teen','scrypt$16$1$1$c2FsdA==$aGFzaA==',0,'2025-11-24T16:00:00',12);
CREATE TABLE addresses (
    digest BLOB PRIMARY KEY,           -- hash_token of the token in the address
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    item TEXT UNIQUE REFERENCES queue ON DELETE CASCADE, -- NULL: the account's own
    token TEXT                         -- only of the account's own: the page shows it
) STRICT;
INSERT INTO "addresses" VALUES(X'2157F7935120CAD516DB73DEDE84BA97D490B0E24DBA63F00EBF935A0D5C13CD',1,'74f5765e48ced1f3',NULL);
INSERT INTO "addresses" VALUES(X'8817C65DD6C5327687200BB9D63BFBFA026E05BBF201B7B3C96609A5B22AC459',2,NULL,'abcdefghjkmnpqrstuvw');
CREATE TABLE ages (                    -- what admins decided; outlives the entries
    title TEXT PRIMARY KEY,            -- as in `entries`
    age INTEGER NOT NULL CHECK (age IN (3, 7, 12, 16, 18)), -- 18: not for children
    sample TEXT                        -- of the only content of an entry without an id
) STRICT, WITHOUT ROWID;
INSERT INTO "ages" VALUES('0100A00000020000',7,NULL);
INSERT INTO "ages" VALUES('0100A00000030000',12,NULL);
INSERT INTO "ages" VALUES('0100A00000040000',7,NULL);
INSERT INTO "ages" VALUES('0100A00000090000',7,NULL);
INSERT INTO "ages" VALUES('0100A000000A0000',16,NULL);
INSERT INTO "ages" VALUES('0100A000000B0000',16,NULL);
INSERT INTO "ages" VALUES('2335e9e266cea9fa',7,'4677d13580fc81459af850acc41930a7');
INSERT INTO "ages" VALUES('23cf493f0febddf8',7,'05cad665c0eb35e9ff4b973b745d0f0f');
INSERT INTO "ages" VALUES('2cb85f3f4a24e39a',7,'437d7e2975e18c67a8c8c461bfadf9e6');
INSERT INTO "ages" VALUES('4dad2986ce834960',7,'f3602da57358c99d635f6eaa314bff55');
INSERT INTO "ages" VALUES('5d998017f5e2fc57',12,'f3602da57358c99d635f6eaa314bff55');
INSERT INTO "ages" VALUES('a3f96f0e51436d1f',7,'b4b170fb7c2a515eed537c6f700b83eb');
INSERT INTO "ages" VALUES('af371d87d8a8f065',7,'1b8e219332aab98a9eb459a0f33f5e2a');
INSERT INTO "ages" VALUES('caa7e9bfd00724a1',12,'d71e30cc3fa5e04202138e401c812529');
INSERT INTO "ages" VALUES('cd425ec38f138999',18,'184c20a89fad53b51c446cfe8557e47b');
INSERT INTO "ages" VALUES('dc159e6a409c38f2',7,NULL);
INSERT INTO "ages" VALUES('e1ff83ab26a2658f',7,'d7ffd31972ce714128dc72bec5fc1dad');
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO "counters" VALUES('list',78);
INSERT INTO "counters" VALUES('ages',18);
CREATE TABLE entries (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL CHECK (type IN ('filepath', 'url')),
    source TEXT NOT NULL,              -- absolute path, or URL
    file_type TEXT NOT NULL,
    size INTEGER NOT NULL,             -- bytes, 0 where unknown
    folder TEXT,                       -- library folder that the file is in
    mtime INTEGER,                     -- nanoseconds
    inode INTEGER,
    volume TEXT,                       -- file system that the file is on; see LOST
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
    kind TEXT,                         -- one of KINDS; this and the rest: see derived
    title TEXT NOT NULL DEFAULT '',    -- base_id, or the own id where there is none
    title_id TEXT,
    number INTEGER NOT NULL DEFAULT 0, -- of the version, 0 where that is no number
    plain_name TEXT NOT NULL DEFAULT '' COLLATE NOCASE, -- which others may have too
    name TEXT NOT NULL,                -- that, or a longer one that no other has
    sort_name TEXT NOT NULL,           -- the name, case folded
    file_name TEXT NOT NULL DEFAULT '', -- for consoles: safe
    marked_name TEXT NOT NULL DEFAULT '', -- where an older entry has that: with the id
    file_key TEXT NOT NULL DEFAULT '', -- the first of both, case folded
    least_age INTEGER NOT NULL DEFAULT 0 -- of the title before, until an admin decides
) STRICT;
INSERT INTO "entries" VALUES('8b54089fee8d99a0','filepath','/srv/games/Celeste [0100AAAABBBB0000][v0].nsp','nsp',143,'/srv/games',1600000000000000101,101,'v1','cccccccccccccccccccccccccccccccc','sample 101','abababababababababababababababababababababababababababababababab',143,1600000000000000101,NULL,'here',NULL,'{"name":"Celeste","description":"","version":"0","title_id":"0100AAAABBBB0000","patch":0,"complete":true}',1,'{}','2023-11-14T22:14:20','scanner','base','0100AAAABBBB0000','0100AAAABBBB0000',0,'Celeste','Celeste (NSP)','celeste (nsp)','Celeste [0100AAAABBBB0000][v0].nsp','Celeste [0100AAAABBBB0000][v0] (8b54089fee8d99a0).nsp','celeste [0100aaaabbbb0000][v0].nsp',0);
INSERT INTO "entries" VALUES('1b3d182df7f1004c','filepath','/srv/games/Celeste [0100AAAABBBB0800][v65536].nsz','nsz',143,'/srv/games',1600000000000000102,102,'v1',NULL,'sample 102','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',1,1600000000000000102,NULL,'here',NULL,'{"name":"Celeste","description":"","version":"65536","title_id":"0100AAAABBBB0800","patch":1,"complete":true}',1,'{"description":"typed only"}','2023-11-14T22:14:20','scanner','update','0100AAAABBBB0000','0100AAAABBBB0800',65536,'Celeste - Update 1','Celeste - Update 1','celeste - update 1','Celeste [0100AAAABBBB0800][v65536].nsz','Celeste [0100AAAABBBB0800][v65536] (1b3d182df7f1004c).nsz','celeste [0100aaaabbbb0800][v65536].nsz',0);
INSERT INTO "entries" VALUES('e75017cace788f82','filepath','/srv/games/Celeste [0100AAAABBBB0800][v131072].nsp','nsp',200,'/srv/games',1600000000000000103,103,'v1',NULL,'sample 103',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Celeste","description":"","version":"131072","title_id":"0100AAAABBBB0800","patch":2,"complete":true}',1,'{}','2023-11-14T22:14:20','scanner','update','0100AAAABBBB0000','0100AAAABBBB0800',131072,'Celeste - Update 2','Celeste - Update 2','celeste - update 2','Celeste [0100AAAABBBB0800][v131072].nsp','Celeste [0100AAAABBBB0800][v131072] (e75017cace788f82).nsp','celeste [0100aaaabbbb0800][v131072].nsp',0);
INSERT INTO "entries" VALUES('a3382767cbd236fa','filepath','/srv/games/Celeste - Farewell [0100AAAABBBB1001][v0].nsp','nsp',143,'/srv/games',1600000000000000104,104,'v1',NULL,'sample 104',NULL,NULL,NULL,'damaged','here',NULL,'{"name":"Celeste - Farewell","description":"","version":"0","title_id":"0100AAAABBBB1001","patch":0,"complete":false}',1,'{}','2023-11-14T22:14:20','scanner','add-on','0100AAAABBBB0000','0100AAAABBBB1001',0,'Celeste - Farewell','Celeste - Farewell','celeste - farewell','Celeste - Farewell [0100AAAABBBB1001][v0].nsp','Celeste - Farewell [0100AAAABBBB1001][v0] (a3382767cbd236fa).nsp','celeste - farewell [0100aaaabbbb1001][v0].nsp',0);
INSERT INTO "entries" VALUES('8eba7fddfa15f905','filepath','/srv/games/other/Celeste [0100AAAABBBB0000][v0].xci','xci',100,'/srv/games',1600000000000000105,105,'v1',NULL,'sample 105',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Celeste","description":"","version":"0","title_id":"0100AAAABBBB0000","patch":0}',1,'{}','2023-11-14T22:14:20','scanner','base','0100AAAABBBB0000','0100AAAABBBB0000',0,'Celeste','Celeste (XCI)','celeste (xci)','Celeste [0100AAAABBBB0000][v0].xci','Celeste [0100AAAABBBB0000][v0] (8eba7fddfa15f905).xci','celeste [0100aaaabbbb0000][v0].xci',0);
INSERT INTO "entries" VALUES('f6b3b5289e2ccd94','filepath','/srv/games/Pokémon Épée [0100CCCCDDDD0000].xci','xci',1025,'/srv/games',1600000000000000106,106,'v1',NULL,'sample 106',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Pokémon Épée","description":"","version":"","title_id":"0100CCCCDDDD0000"}',1,'{"name":"Épée","version":"7"}','2023-11-14T22:14:20','scanner','base','0100CCCCDDDD0000','0100CCCCDDDD0000',7,'Épée','Épée','épée','Pokémon Épée [0100CCCCDDDD0000].xci','Pokémon Épée [0100CCCCDDDD0000] (f6b3b5289e2ccd94).xci','pokémon épée [0100ccccdddd0000].xci',0);
INSERT INTO "entries" VALUES('d9614b235de46ab6','filepath','/srv/games/A "quoted" \ name 東京.xcz','xcz',300,'/srv/games',1600000000000000107,107,'v1',NULL,'sample 107',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"A \"quoted\" \\ name 東京","description":"","version":""}',1,'{"kind":"add-on","base_id":"0100aaaabbbb0000"}','2023-11-14T22:14:20','scanner','add-on','0100AAAABBBB0000',NULL,0,'A "quoted" \ name 東京 - Add-on','A "quoted" \ name 東京 - Add-on','a "quoted" \ name 東京 - add-on','A _quoted_ _ name 東京.xcz','A _quoted_ _ name 東京 (d9614b235de46ab6).xcz','a _quoted_ _ name 東京.xcz',0);
INSERT INTO "entries" VALUES('6b7a09e188c630e3','filepath','/srv/games/Broken [0100EEEEFFFF0000].nsp','nsp',70,'/srv/games',1600000000000000108,108,'v1',NULL,'sample 108',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Broken","description":"","version":"","title_id":"0100EEEEFFFF0000","complete":false}',1,'{}','2023-11-14T22:14:20','scanner','base','0100EEEEFFFF0000','0100EEEEFFFF0000',0,'Broken','Broken','broken','Broken [0100EEEEFFFF0000].nsp','Broken [0100EEEEFFFF0000] (6b7a09e188c630e3).nsp','broken [0100eeeeffff0000].nsp',0);
INSERT INTO "entries" VALUES('a93b64973cfc8897','filepath','/srv/games/Lone [0100777788880800][v65536].nsp','nsp',143,'/srv/games',1600000000000000109,109,'v1',NULL,'sample 109',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Lone","description":"","version":"65536","title_id":"0100777788880800","patch":1}',1,'{"kind":""}','2023-11-14T22:14:20','scanner',NULL,'a93b64973cfc8897','0100777788880800',65536,'Lone','Lone','lone','Lone [0100777788880800][v65536].nsp','Lone [0100777788880800][v65536] (a93b64973cfc8897).nsp','lone [0100777788880800][v65536].nsp',0);
INSERT INTO "entries" VALUES('5110adc459f44b27','filepath','/srv/homebrew/hbmenu.nro','nro',20890,'/srv/homebrew',1600000000000000110,110,'v2',NULL,'sample 110',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Homebrew Menu","description":"","version":"3.6.0","author":"switchbrew","icon":"b9ee16a7d8fc133773a2bd4629877bd3","complete":true}',1,'{}','2023-11-14T22:14:20','scanner','homebrew','5110adc459f44b27',NULL,0,'Homebrew Menu','Homebrew Menu','homebrew menu','hbmenu.nro','hbmenu (5110adc459f44b27).nro','hbmenu.nro',0);
INSERT INTO "entries" VALUES('f7a4e0a0ccb07ae3','filepath','/srv/homebrew/plain.nro','nro',20587,'/srv/homebrew',1600000000000000111,111,'v2','dddddddddddddddddddddddddddddddd','sample 111',NULL,NULL,NULL,NULL,'here',NULL,'{"name":"plain","description":"","version":"1.0","complete":true,"icon":"b9ee16a7d8fc133773a2bd4629877bd3"}',1,'{}','2023-11-14T22:14:20','scanner','homebrew','f7a4e0a0ccb07ae3',NULL,0,'plain','plain','plain','plain.nro','plain (f7a4e0a0ccb07ae3).nro','plain.nro',0);
INSERT INTO "entries" VALUES('750f013235bbef06','filepath','/srv/games/Gone [0100111122220000].nsp','nsp',143,'/srv/games',1600000000000000112,112,'v1',NULL,'sample 112',NULL,NULL,NULL,NULL,'gone','2023-11-14T22:16:55','{"name":"Gone","description":"","version":"","title_id":"0100111122220000"}',1,'{}','2023-11-14T22:14:20','scanner','base','0100111122220000','0100111122220000',0,'Gone','Gone','gone','Gone [0100111122220000].nsp','Gone [0100111122220000] (750f013235bbef06).nsp','gone [0100111122220000].nsp',0);
INSERT INTO "entries" VALUES('20398d138e4d7bb4','filepath','/srv/games/Offline [0100333344440000].nsp','nsp',143,'/srv/games',1600000000000000113,113,'v1',NULL,'sample 113',NULL,NULL,NULL,NULL,'offline',NULL,'{"name":"Offline","description":"","version":"","title_id":"0100333344440000"}',1,'{}','2023-11-14T22:14:20','scanner','base','0100333344440000','0100333344440000',0,'Offline','Offline','offline','Offline [0100333344440000].nsp','Offline [0100333344440000] (20398d138e4d7bb4).nsp','offline [0100333344440000].nsp',0);
INSERT INTO "entries" VALUES('182d7cbac174658f','url','http://mirror.example/x.nsp?a=1&b=%20','nsp',1234,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Ä link","description":"d","version":"2"}',1,'{}','2023-11-14T22:14:20','anna',NULL,'182d7cbac174658f',NULL,2,'Ä link','Ä link','ä link','Ä link.nsp','Ä link (182d7cbac174658f).nsp','ä link.nsp',0);
INSERT INTO "entries" VALUES('a0664df1315a8aba','url','http://mirror.example/noext','',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Celeste","description":"","version":""}',1,'{}','2023-11-14T22:14:20','anna',NULL,'a0664df1315a8aba',NULL,0,'Celeste','Celeste','celeste','Celeste','Celeste (a0664df1315a8aba)','celeste',0);
INSERT INTO "entries" VALUES('6018366cf658f7a7','filepath','/srv/games/two/Twin.nsp','nsp',143,'/srv/games',1600000000000000202,202,'v1',NULL,'sample 202',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Twin"}',1,'{}','2023-11-14T22:18:20','scanner',NULL,'6018366cf658f7a7',NULL,0,'Twin','Twin (games/two/Twin.nsp)','twin (games/two/twin.nsp)','Twin.nsp','Twin (6018366cf658f7a7).nsp','twin.nsp',0);
INSERT INTO "entries" VALUES('317017a6205738d1','filepath','/srv/games/three/TWIN.nsp','nsp',143,'/srv/games',1600000000000000203,203,'v1',NULL,'sample 203',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"TWIN"}',1,'{}','2023-11-14T22:18:20','scanner',NULL,'317017a6205738d1',NULL,0,'TWIN','TWIN (games/three/TWIN.nsp)','twin (games/three/twin.nsp)','TWIN.nsp','TWIN (317017a6205738d1).nsp','twin.nsp',0);
INSERT INTO "entries" VALUES('0b3510b0b46ee1da','filepath','/srv/games/four/Twin.nsp','nsp',143,'/srv/games',1600000000000000204,204,'v1',NULL,'sample 204',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Twin"}',1,'{}','2023-11-14T22:18:20','scanner',NULL,'0b3510b0b46ee1da',NULL,0,'Twin','Twin (games/four/Twin.nsp)','twin (games/four/twin.nsp)','Twin.nsp','Twin (0b3510b0b46ee1da).nsp','twin.nsp',0);
INSERT INTO "entries" VALUES('230824d215ceb3a1','filepath','/srv/games/five/Twin.nsp','nsp',143,'/srv/games',1600000000000000205,205,'v1',NULL,'sample 205',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Twin"}',1,'{}','2023-11-14T22:18:20','scanner',NULL,'230824d215ceb3a1',NULL,0,'Twin','Twin (games/five/Twin.nsp)','twin (games/five/twin.nsp)','Twin.nsp','Twin (230824d215ceb3a1).nsp','twin.nsp',0);
INSERT INTO "entries" VALUES('81a0d5b3ffc6e35c','filepath','/srv/games/two/Sole.nsp','nsp',143,'/srv/games',1600000000000000207,207,'v1',NULL,'sample 207',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Sole"}',1,'{}','2023-11-14T22:18:20','scanner',NULL,'81a0d5b3ffc6e35c',NULL,0,'Sole','Sole','sole','Sole.nsp','Sole (81a0d5b3ffc6e35c).nsp','sole.nsp',0);
INSERT INTO "entries" VALUES('6694f229359b1548','filepath','/srv/games/Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long .nsp','nsp',143,'/srv/games',1600000000000000208,208,'v1',NULL,'sample 208',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long"}',1,'{}','2023-11-14T22:18:20','scanner',NULL,'6694f229359b1548',NULL,0,'Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long','Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long (games/Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long .nsp)','long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long (games/long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long .nsp)','Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long L.nsp','Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Lo (6694f229359b1548).nsp','long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long l.nsp',0);
INSERT INTO "entries" VALUES('07c15471a4517d6c','filepath','/srv/games/x/Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long .nsp','nsp',143,'/srv/games',1600000000000000209,209,'v1',NULL,'sample 209',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long"}',1,'{}','2023-11-14T22:18:20','scanner',NULL,'07c15471a4517d6c',NULL,0,'Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long','Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long (games/x/Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long .nsp)','long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long (games/x/long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long .nsp)','Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long L.nsp','Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Long Lo (07c15471a4517d6c).nsp','long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long l.nsp',0);
INSERT INTO "entries" VALUES('7cc661e97589ca4a','filepath','/srv/games/Pokémon Über [0100999900000000].nsp','nsp',143,'/srv/games',1600000000000000210,210,'v1',NULL,'sample 210',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Pokémon Über","title_id":"0100999900000000"}',1,'{}','2023-11-14T22:18:20','scanner','base','0100999900000000','0100999900000000',0,'Pokémon Über','Pokémon Über','pokémon über','Pokémon Über [0100999900000000].nsp','Pokémon Über [0100999900000000] (7cc661e97589ca4a).nsp','pokémon über [0100999900000000].nsp',0);
INSERT INTO "entries" VALUES('63f65da874007cb4','filepath','/srv/games/Pokémon Über [0100999900000800][v65536].nsp','nsp',143,'/srv/games',1600000000000000211,211,'v1','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','sample 211',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"65536","name":"Pokémon Über","title_id":"0100999900000800","patch":1}',1,'{}','2023-11-14T22:18:20','scanner','update','0100999900000000','0100999900000800',65536,'Pokémon Über - Update 1','Pokémon Über - Update 1','pokémon über - update 1','Pokémon Über [0100999900000800][v65536].nsp','Pokémon Über [0100999900000800][v65536] (63f65da874007cb4).nsp','pokémon über [0100999900000800][v65536].nsp',0);
INSERT INTO "entries" VALUES('92b850ad7eb72f82','filepath','/srv/homebrew/Away [0100888800000000].nsp','nsp',143,'/srv/homebrew',1600000000000000212,212,'v3',NULL,'sample 212',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Away","title_id":"0100888800000000"}',1,'{}','2023-11-14T22:18:20','scanner','base','0100888800000000','0100888800000000',0,'Away','Away','away','Away [0100888800000000].nsp','Away [0100888800000000] (92b850ad7eb72f82).nsp','away [0100888800000000].nsp',0);
INSERT INTO "entries" VALUES('e5b8063831360a40','filepath','/srv/homebrew/Twin.nsp','nsp',143,'/srv/homebrew',1600000000000000213,213,'v3',NULL,'sample 213',NULL,NULL,NULL,NULL,'offline',NULL,'{"description":"","version":"","name":"Twin"}',1,'{}','2023-11-14T22:18:20','scanner',NULL,'e5b8063831360a40',NULL,0,'Twin','Twin (homebrew/Twin.nsp)','twin (homebrew/twin.nsp)','Twin.nsp','Twin (e5b8063831360a40).nsp','twin.nsp',0);
INSERT INTO "entries" VALUES('67164890d49d0ac1','url','http://mirror.example/twin','nsp',9,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Twin","description":"","version":""}',1,'{}','2023-11-14T22:18:20','anna',NULL,'67164890d49d0ac1',NULL,0,'Twin','Twin','twin','Twin.nsp','Twin (67164890d49d0ac1).nsp','twin.nsp',0);
INSERT INTO "entries" VALUES('7c2f7ad016edc5d4','url','http://mirror.example/twin2','nsp',9,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Twin","description":"","version":""}',1,'{}','2023-11-14T22:18:20','anna',NULL,'7c2f7ad016edc5d4',NULL,0,'Twin','Twin','twin','Twin.nsp','Twin (7c2f7ad016edc5d4).nsp','twin.nsp',0);
INSERT INTO "entries" VALUES('4dad2986ce834960','filepath','/srv/kids/Two ages.nro','nro',1500,'/srv/kids',1700000000000000500,500,'v1',NULL,'f3602da57358c99d635f6eaa314bff55',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Two ages"}',2,'{}','2025-11-24T16:00:01','scanner','homebrew','4dad2986ce834960',NULL,0,'Two ages','Two ages','two ages','Two ages.nro','Two ages (4dad2986ce834960).nro','two ages.nro',0);
INSERT INTO "entries" VALUES('5d998017f5e2fc57','filepath','/srv/kids/copies/Two ages again.nro','nro',1501,'/srv/kids',1700000000000000501,501,'v1',NULL,'f3602da57358c99d635f6eaa314bff55',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Two ages again"}',2,'{}','2025-11-24T16:00:02','scanner','homebrew','5d998017f5e2fc57',NULL,0,'Two ages again','Two ages again','two ages again','Two ages again.nro','Two ages again (5d998017f5e2fc57).nro','two ages again.nro',0);
INSERT INTO "entries" VALUES('2cb85f3f4a24e39a','filepath','/srv/kids/One age.nro','nro',1502,'/srv/kids',1700000000000000502,502,'v1',NULL,'437d7e2975e18c67a8c8c461bfadf9e6',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"One age"}',2,'{}','2025-11-24T16:00:03','scanner','homebrew','2cb85f3f4a24e39a',NULL,0,'One age','One age','one age','One age.nro','One age (2cb85f3f4a24e39a).nro','one age.nro',0);
INSERT INTO "entries" VALUES('b48438b5c41f9dfd','filepath','/srv/kids/copies/One age again.nro','nro',1503,'/srv/kids',1700000000000000503,503,'v1',NULL,'437d7e2975e18c67a8c8c461bfadf9e6',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"One age again"}',2,'{}','2025-11-24T16:00:04','scanner','homebrew','b48438b5c41f9dfd',NULL,0,'One age again','One age again','one age again','One age again.nro','One age again (b48438b5c41f9dfd).nro','one age again.nro',0);
INSERT INTO "entries" VALUES('8a4996efb447c0ce','filepath','/srv/kids/Raised [0100A00000020000][v0].nsp','nsp',1504,'/srv/kids',1700000000000000504,504,'v1',NULL,'caa7dbdf65908c3073c5cc67a17589ba',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"0","name":"Raised","title_id":"0100A00000020000","patch":0}',2,'{}','2025-11-24T16:00:05','scanner','base','0100A00000020000','0100A00000020000',0,'Raised','Raised','raised','Raised [0100A00000020000][v0].nsp','Raised [0100A00000020000][v0] (8a4996efb447c0ce).nsp','raised [0100a00000020000][v0].nsp',0);
INSERT INTO "entries" VALUES('473d212ba950666d','filepath','/srv/kids/Raised from elsewhere [0100A00000030000][v0].nsp','nsp',1505,'/srv/kids',1700000000000000505,505,'v1',NULL,'df9717559725264bbf2dc1a5ccb8dbda',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"0","name":"Raised from elsewhere","title_id":"0100A00000030000","patch":0}',2,'{"base_id":"0100A00000020000"}','2025-11-24T16:00:06','scanner','base','0100A00000020000','0100A00000030000',0,'Raised from elsewhere','Raised from elsewhere','raised from elsewhere','Raised from elsewhere [0100A00000030000][v0].nsp','Raised from elsewhere [0100A00000030000][v0] (473d212ba950666d).nsp','raised from elsewhere [0100a00000030000][v0].nsp',12);
INSERT INTO "entries" VALUES('eae0d2c11c339464','filepath','/srv/kids/Hidden [0100A00000040000][v0].nsp','nsp',1506,'/srv/kids',1700000000000000506,506,'v1',NULL,'167ee9df61edb36a407bf2c921efd25c',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"0","name":"Hidden","title_id":"0100A00000040000","patch":0}',2,'{}','2025-11-24T16:00:07','scanner','base','0100A00000040000','0100A00000040000',0,'Hidden','Hidden','hidden','Hidden [0100A00000040000][v0].nsp','Hidden [0100A00000040000][v0] (eae0d2c11c339464).nsp','hidden [0100a00000040000][v0].nsp',0);
INSERT INTO "entries" VALUES('3fb81d2706e55426','filepath','/srv/kids/Hidden from elsewhere [0100A00000050000][v0].nsp','nsp',1507,'/srv/kids',1700000000000000507,507,'v1',NULL,'17369e9aaf5007956414288b8a6a73cc',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"0","name":"Hidden from elsewhere","title_id":"0100A00000050000","patch":0}',2,'{"base_id":"0100A00000040000"}','2025-11-24T16:00:08','scanner','base','0100A00000040000','0100A00000050000',0,'Hidden from elsewhere','Hidden from elsewhere','hidden from elsewhere','Hidden from elsewhere [0100A00000050000][v0].nsp','Hidden from elsewhere [0100A00000050000][v0] (3fb81d2706e55426).nsp','hidden from elsewhere [0100a00000050000][v0].nsp',0);
INSERT INTO "entries" VALUES('d0b0090d62590992','url','http://mirror.example/Hidden link.nsp','nsp',9,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Hidden link","description":"","version":""}',2,'{"base_id":"0100A00000040000","kind":"base"}','2025-11-24T16:00:08','anna','base','0100A00000040000',NULL,0,'Hidden link','Hidden link','hidden link','Hidden link.nsp','Hidden link (d0b0090d62590992).nsp','hidden link.nsp',0);
INSERT INTO "entries" VALUES('6b68b48ebf13c171','filepath','/srv/kids/Hidden too [0100A00000060000][v0].nsp','nsp',1508,'/srv/kids',1700000000000000508,508,'v1',NULL,'8ff1fc486cfe68b35f6c416c9d5daab7',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"0","name":"Hidden too","title_id":"0100A00000060000","patch":0}',2,'{"base_id":"0100A00000040000"}','2025-11-24T16:00:09','scanner','base','0100A00000040000','0100A00000060000',0,'Hidden too','Hidden too','hidden too','Hidden too [0100A00000060000][v0].nsp','Hidden too [0100A00000060000][v0] (6b68b48ebf13c171).nsp','hidden too [0100a00000060000][v0].nsp',99);
INSERT INTO "entries" VALUES('dc159e6a409c38f2','url','http://mirror.example/Aged link.nsp','nsp',9,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Aged link","description":"","version":""}',2,'{}','2025-11-24T16:00:09','anna',NULL,'dc159e6a409c38f2',NULL,0,'Aged link','Aged link','aged link','Aged link.nsp','Aged link (dc159e6a409c38f2).nsp','aged link.nsp',0);
INSERT INTO "entries" VALUES('cd68615c80690847','url','http://mirror.example/Plain link.nsp','nsp',9,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'here',NULL,'{"name":"Plain link","description":"","version":""}',2,'{}','2025-11-24T16:00:09','anna',NULL,'cd68615c80690847',NULL,0,'Plain link','Plain link','plain link','Plain link.nsp','Plain link (cd68615c80690847).nsp','plain link.nsp',0);
INSERT INTO "entries" VALUES('a3f96f0e51436d1f','filepath','/srv/kids/Replaced.nro','nro',1510,'/srv/kids',1700000000000000510,510,'v1',NULL,'4391b760b31fd065a929ec62c7296553',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Replaced"}',2,'{}','2025-11-24T16:00:10','scanner','homebrew','a3f96f0e51436d1f',NULL,0,'Replaced','Replaced','replaced','Replaced.nro','Replaced (a3f96f0e51436d1f).nro','replaced.nro',0);
INSERT INTO "entries" VALUES('af371d87d8a8f065','filepath','/srv/kids/Replaced twin.nro','nro',1513,'/srv/kids',1700000000000000513,513,'v1',NULL,'177afb7c19de41e3fc4a260ac6f6d5ad',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Replaced twin"}',2,'{}','2025-11-24T16:00:11','scanner','homebrew','af371d87d8a8f065',NULL,0,'Replaced twin','Replaced twin','replaced twin','Replaced twin.nro','Replaced twin (af371d87d8a8f065).nro','replaced twin.nro',0);
INSERT INTO "entries" VALUES('b969ec07f1f83a79','filepath','/srv/kids/copies/Replaced twin again.nro','nro',1512,'/srv/kids',1700000000000000512,512,'v1',NULL,'1b8e219332aab98a9eb459a0f33f5e2a',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Replaced twin again"}',2,'{}','2025-11-24T16:00:12','scanner','homebrew','b969ec07f1f83a79',NULL,0,'Replaced twin again','Replaced twin again','replaced twin again','Replaced twin again.nro','Replaced twin again (b969ec07f1f83a79).nro','replaced twin again.nro',0);
INSERT INTO "entries" VALUES('2335e9e266cea9fa','filepath','/srv/kids/Deleted.nro','nro',1514,'/srv/kids',1700000000000000514,514,'v1',NULL,'4677d13580fc81459af850acc41930a7',NULL,NULL,NULL,NULL,'gone','2025-11-24T16:00:13','{"description":"","version":"","name":"Deleted"}',2,'{}','2025-11-24T16:00:13','scanner','homebrew','2335e9e266cea9fa',NULL,0,'Deleted','Deleted','deleted','Deleted.nro','Deleted (2335e9e266cea9fa).nro','deleted.nro',0);
INSERT INTO "entries" VALUES('8d1a6bffff9a3914','filepath','/srv/kids/Undecided [0100A00000080000][v0].nsp','nsp',1515,'/srv/kids',1700000000000000515,515,'v1',NULL,'5d968a10173cb386baf661ad561a9d56',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"0","name":"Undecided","title_id":"0100A00000080000","patch":0}',2,'{}','2025-11-24T16:00:14','scanner','base','0100A00000080000','0100A00000080000',0,'Undecided','Undecided','undecided','Undecided [0100A00000080000][v0].nsp','Undecided [0100A00000080000][v0] (8d1a6bffff9a3914).nsp','undecided [0100a00000080000][v0].nsp',0);
INSERT INTO "entries" VALUES('23cf493f0febddf8','filepath','/srv/kids/Joined.nsp','nsp',1516,'/srv/kids',1700000000000000516,516,'v1',NULL,'05cad665c0eb35e9ff4b973b745d0f0f',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Joined"}',2,'{"base_id":"0100A00000080000","kind":"base"}','2025-11-24T16:00:15','scanner','base','0100A00000080000',NULL,0,'Joined','Joined','joined','Joined.nsp','Joined (23cf493f0febddf8).nsp','joined.nsp',7);
INSERT INTO "entries" VALUES('caa7e9bfd00724a1','filepath','/srv/kids/Equal.nsp','nsp',1517,'/srv/kids',1700000000000000517,517,'v1',NULL,'d71e30cc3fa5e04202138e401c812529',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Equal"}',2,'{}','2025-11-24T16:00:16','scanner',NULL,'caa7e9bfd00724a1',NULL,0,'Equal','Equal (Equal.nsp)','equal (equal.nsp)','Equal.nsp','Equal (caa7e9bfd00724a1).nsp','equal.nsp',0);
INSERT INTO "entries" VALUES('32521553e014be00','filepath','/srv/kids/Equal [0100A00000090000][v0].nsp','nsp',1518,'/srv/kids',1700000000000000518,518,'v1',NULL,'d71e30cc3fa5e04202138e401c812529',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"0","name":"Equal","title_id":"0100A00000090000","patch":0}',2,'{}','2025-11-24T16:00:17','scanner','base','0100A00000090000','0100A00000090000',0,'Equal','Equal','equal','Equal [0100A00000090000][v0].nsp','Equal [0100A00000090000][v0] (32521553e014be00).nsp','equal [0100a00000090000][v0].nsp',0);
INSERT INTO "entries" VALUES('e1ff83ab26a2658f','filepath','/srv/kids/Left.nsp','nsp',1519,'/srv/kids',1700000000000000519,519,'v1',NULL,'d7ffd31972ce714128dc72bec5fc1dad',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Left"}',2,'{}','2025-11-24T16:00:18','scanner',NULL,'e1ff83ab26a2658f',NULL,0,'Left','Left','left','Left.nsp','Left (e1ff83ab26a2658f).nsp','left.nsp',16);
INSERT INTO "entries" VALUES('8869510db4a02517','filepath','/srv/kids/Sixteen [0100A000000A0000].nsp','nsp',1520,'/srv/kids',1700000000000000520,520,'v1',NULL,'64fb9c2ce7abe71379616665f35aaee6',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Sixteen","title_id":"0100A000000A0000"}',2,'{}','2025-11-24T16:00:19','scanner','base','0100A000000A0000','0100A000000A0000',0,'Sixteen','Sixteen','sixteen','Sixteen [0100A000000A0000].nsp','Sixteen [0100A000000A0000] (8869510db4a02517).nsp','sixteen [0100a000000a0000].nsp',0);
INSERT INTO "entries" VALUES('cd425ec38f138999','filepath','/srv/kids/Adults.nro','nro',1521,'/srv/kids',1700000000000000521,521,'v1',NULL,'184c20a89fad53b51c446cfe8557e47b',NULL,NULL,NULL,NULL,'here',NULL,'{"description":"","version":"","name":"Adults"}',2,'{}','2025-11-24T16:00:20','scanner','homebrew','cd425ec38f138999',NULL,0,'Adults','Adults','adults','Adults.nro','Adults (cd425ec38f138999).nro','adults.nro',0);
CREATE TABLE icons (
    digest TEXT PRIMARY KEY,           -- of a file's icon, or of an image as `cover`
    ending TEXT NOT NULL,              -- see menu_ending
    image BLOB NOT NULL                -- a JPEG or PNG
) STRICT;
INSERT INTO "icons" VALUES('b9ee16a7d8fc133773a2bd4629877bd3','',X'FFD8FF616263');
INSERT INTO "icons" VALUES('cccccccccccccccccccccccccccccccc','',X'89504E470D0A1A0A616263');
INSERT INTO "icons" VALUES('ffffffffffffffffffffffffffffffff','',X'89504E470D0A1A0A616263');
INSERT INTO "icons" VALUES('eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','',X'FFD8FF616263');
CREATE TABLE invitations (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the token in the link
    maker INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    account INTEGER REFERENCES accounts ON DELETE CASCADE, -- that gets a new password
    admin INTEGER NOT NULL,            -- this and the age: of a new account
    age INTEGER CHECK (age IS NULL OR NOT admin),
    created_at TEXT NOT NULL
) STRICT;
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    label TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the key
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    requests INTEGER NOT NULL DEFAULT 0,
    by_login INTEGER NOT NULL DEFAULT 0, -- 1: made by a client's login
    unused_since TEXT NOT NULL GENERATED ALWAYS AS -- other keys do not end by that
        (iif(by_login, coalesce(last_used_at, created_at), '9999')) VIRTUAL,
    is_device INTEGER NOT NULL DEFAULT 0, -- 1: was paired, or has fetched a queue
    shared INTEGER NOT NULL DEFAULT 0, -- 1: every account may send to the device
    target TEXT NOT NULL DEFAULT '',   -- as its client last told: 'ready', or why not
    address TEXT NOT NULL DEFAULT '',  -- of the console, if this server serves it
    user TEXT NOT NULL DEFAULT '',     -- of the FTP server at that address
    password TEXT NOT NULL DEFAULT '', -- of that user, in plain text
    paused_by TEXT                     -- an account, '': a command, NULL: not paused
) STRICT;
INSERT INTO "keys" VALUES('f6fc42039fba3776',1,'Living room',X'C826A7DFFFAD2CBA083A12FEB70461016AF928B5F401E25130D00EFD2C367ADC','2023-11-14T22:13:20','2023-11-14T22:14:20',1,0,1,1,'ready','','','',NULL);
INSERT INTO "keys" VALUES('1bf41ef6fd6f6f6c',2,'ben''s phone',X'508A3A6D3E90298598580EF06C562B03A89D30804E7A0A1712AFC094E9AB60B5','2023-11-14T22:13:20',NULL,0,0,0,0,'','','','',NULL);
INSERT INTO "keys" VALUES('9e251905a6d98e01',2,'signed in by a client',X'37429E27EBEE64107B13792E2CB7BCA3044E0402FB9003B691EC97E418D14502','2023-11-14T22:13:20',NULL,0,1,0,0,'','','','',NULL);
INSERT INTO "keys" VALUES('c24f6aa83bf36a14',1,'Bedroom',X'03E5B42EA124BD14F5317527788892CFEE64F518194EEE080FCFA80EAE3624B1','2023-11-14T22:18:20',NULL,0,0,1,1,'','ftp://127.0.0.1:9/games','u','p',NULL);
CREATE TABLE queue (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    place INTEGER NOT NULL,            -- the smallest is first
    status TEXT NOT NULL DEFAULT 'pending', -- one of QUEUE_STATUSES
    percent REAL NOT NULL DEFAULT 0,   -- 0 to 100, when it ended; see Progress
    bytes INTEGER NOT NULL DEFAULT 0,  -- at that time
    speed INTEGER NOT NULL DEFAULT 0,  -- bytes per second
    error TEXT NOT NULL DEFAULT '',    -- why the last attempt failed, in English
    error_code TEXT NOT NULL DEFAULT '', -- of that sentence, '' where it has none
    error_arguments TEXT NOT NULL DEFAULT '{}', -- JSON: what varies in it
    attempts INTEGER NOT NULL DEFAULT 0, -- that failed, since the target got further
    furthest INTEGER NOT NULL DEFAULT 0, -- bytes that the target had at most
    attempted TEXT,                    -- size and time of the file that these are of
    created_at TEXT NOT NULL,
    key TEXT REFERENCES keys ON DELETE SET NULL, -- of the client that sends it
    device TEXT REFERENCES keys ON DELETE SET NULL, -- the only key that may send it
    freed_from TEXT,                   -- label of its device before: waits for a choice
    replaces INTEGER NOT NULL DEFAULT 0, -- 1: it may replace a file on the target
    client TEXT,                       -- what that client calls itself, if it does
    ended_at TEXT,                     -- NULL while its status is an open one
    action TEXT,                       -- that sent, cancelled or cleared it: see undo
    cleared_at TEXT,                   -- NULL while it is shown
    is_open INTEGER NOT NULL GENERATED ALWAYS AS (ended_at IS NULL) VIRTUAL
) STRICT;
INSERT INTO "queue" VALUES('beedd235ea2df44a',1,'750f013235bbef06',1,'pending',0.0,0,0,'','','{}',0,0,NULL,'2023-11-14T22:14:30',NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "queue" VALUES('243c08600a374937',1,'20398d138e4d7bb4',2,'pending',0.0,0,0,'','','{}',0,0,NULL,'2023-11-14T22:14:40',NULL,'f6fc42039fba3776',NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "queue" VALUES('541f1857238b166f',1,'8b54089fee8d99a0',3,'completed',100.0,143,0,'','','{}',0,0,NULL,'2023-11-14T22:14:50','f6fc42039fba3776','f6fc42039fba3776',NULL,0,NULL,'2023-11-14T22:14:55',NULL,NULL);
INSERT INTO "queue" VALUES('f06781e6f56cf7b6',1,'1b3d182df7f1004c',4,'failed',0.0,0,0,'The cable "fell" out.','','{}',0,0,NULL,'2023-11-14T22:15:05','f6fc42039fba3776',NULL,NULL,0,'one','2023-11-14T22:15:05',NULL,NULL);
INSERT INTO "queue" VALUES('0dd3e879ef669029',1,'5110adc459f44b27',5,'cancelled',0.0,0,0,'','','{}',0,0,NULL,'2023-11-14T22:15:15',NULL,NULL,NULL,0,NULL,'2023-11-14T22:15:15',NULL,NULL);
INSERT INTO "queue" VALUES('a87cf1ef82609d02',2,'f6b3b5289e2ccd94',6,'pending',0.0,0,0,'','','{}',0,0,NULL,'2023-11-14T22:15:25',NULL,'f6fc42039fba3776',NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "queue" VALUES('811dc2a2d36f999c',2,'182d7cbac174658f',7,'completed',0.0,0,0,'','','{}',0,0,NULL,'2023-11-14T22:15:35','1bf41ef6fd6f6f6c',NULL,NULL,0,NULL,'2023-11-14T22:15:35',NULL,NULL);
INSERT INTO "queue" VALUES('74f5765e48ced1f3',1,'e75017cace788f82',8,'processing',50.5,5000,777,'','','{}',0,0,NULL,'2023-11-14T22:15:55','f6fc42039fba3776',NULL,NULL,0,'one',NULL,NULL,NULL);
INSERT INTO "queue" VALUES('837cc347836c371a',2,'6018366cf658f7a7',9,'pending',0.0,0,0,'','','{}',0,0,NULL,'2023-11-14T22:18:20',NULL,NULL,'Sold',0,NULL,NULL,NULL,NULL);
INSERT INTO "queue" VALUES('209a086b36e0810d',1,'81a0d5b3ffc6e35c',10,'pending',0.0,0,0,'','','{}',0,0,NULL,'2023-11-14T22:18:20',NULL,'c24f6aa83bf36a14',NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "queue" VALUES('a54e6782bf11762c',1,'67164890d49d0ac1',11,'completed',100.0,9,0,'','','{}',0,0,NULL,'2023-11-14T22:18:20','f6fc42039fba3776',NULL,NULL,0,NULL,'2023-11-14T22:18:20',NULL,NULL);
INSERT INTO "queue" VALUES('13e9a2000a73062d',1,'81a0d5b3ffc6e35c',12,'pending',0.0,0,0,'','','{}',0,0,NULL,'2023-11-14T22:18:20',NULL,NULL,NULL,1,NULL,NULL,NULL,NULL);
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
    unused_since TEXT NOT NULL GENERATED ALWAYS AS
        (coalesce(last_used_at, created_at)) VIRTUAL
) STRICT;
INSERT INTO "sessions" VALUES('711d7b067f3018b6',1,X'37127B4D55C6D636FBAB627BFB592E6928EF97076E1228E168C2BC2AC4EE12C4','Firefox','2023-11-14T22:13:20','2023-11-14T22:14:20');
INSERT INTO "sessions" VALUES('796d3bc4685ca8af',2,X'2FC6C4856CD70F748F53FAD5A60FFF1A5DCA669EDF46C9C4B971BEE4795837BA','Chrome','2023-11-14T22:18:20',NULL);
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
    UNIQUE (account, name, size, modified)
) STRICT;
INSERT INTO "uploads" VALUES('852a5fba444adf42',2,'New.nsp',1000,1699999000000);
CREATE UNIQUE INDEX addresses_to_browse ON addresses (account) WHERE item IS NULL;
CREATE INDEX title_images_title ON title_images (title, path);
CREATE VIEW served_files AS
SELECT id, source AS path, folder, size, mtime, checksum AS sha256
FROM parts WHERE type = 'filepath' AND +state = 'here';
CREATE VIEW viewers AS SELECT id AS account, name, admin,
    iif(admin, 99, coalesce(age, 99)) AS age FROM accounts;
CREATE VIEW held_ages AS SELECT title, age, sample FROM ages WHERE sample IS NULL
OR sample = (SELECT sample FROM entries WHERE id = ages.title AND least_age <= age);
CREATE INDEX entries_listed ON entries (state, sort_name, id);
CREATE INDEX entries_source ON entries (source);
CREATE INDEX entries_sample ON entries (sample);
CREATE INDEX entries_folder ON entries (folder, state);
CREATE INDEX entries_title ON entries
    (title, kind, title_id, number, state, size, created_at, id);
CREATE INDEX entries_name ON entries (plain_name);
CREATE INDEX entries_file ON entries (file_key);
CREATE INDEX entries_damaged ON entries (id) WHERE fault = 'damaged';
CREATE INDEX entries_cover ON entries (cover) WHERE cover IS NOT NULL;
CREATE INDEX entries_icon ON entries (facts ->> 'icon')
    WHERE facts ->> 'icon' IS NOT NULL;
CREATE VIEW parts AS SELECT *, rowid AS serial,
    iif(title = id, NULL, title) AS base_id,
    max(least_age, coalesce(
        (SELECT age FROM held_ages WHERE held_ages.title = entries.title), 99
    )) AS seen_from,
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
        -- The other is here and not offline, or else has the higher number, or else is
        -- larger, or else older: version 3 of 9 MB is surplus beside version 4 of 8 MB.
        AND (other.state, -other.number, -other.size, other.created_at, other.id) <
        (entries.state, -entries.number, -entries.size, entries.created_at, entries.id)
    ) THEN 'copy' END AS surplus
FROM entries;
CREATE VIEW known_files AS SELECT id, source AS path, folder, size, mtime, inode,
    volume, cover, sample, state, gone_at, rowid AS serial, facts_version,
    overrides != '{}' OR id IN (SELECT title FROM ages)
    OR id IN (SELECT entry FROM queue WHERE is_open)
    OR id IN (SELECT entry FROM sent) AS is_touched
FROM entries WHERE type = 'filepath';
CREATE VIEW answers AS SELECT id, state, sort_name, seen_from,
    json_object(
        'id', id, 'name', name, 'source', source, 'type', type, 'file_type', file_type,
        'size', size, 'created_at', created_at, 'created_by', created_by, 'metadata',
        json_patch(
            iif(overrides = '{}', facts, json_patch(facts, overrides)),
            json_object('name', NULL, 'icon', icon, 'kind', kind, 'base_id', base_id,
                'sha256', checksum))
    ) AS entry_json,
    json_patch(json_remove(facts, '$.description'), json_object(
        'id', id, 'name', name, 'type', type, 'file_type', nullif(file_type, ''),
        'size', size, 'created_at', created_at, 'state', state, 'kind', kind,
        'base_id', base_id, 'title_id', title_id, 'version', nullif(version, ''),
        'icon', icon, 'complete', iif(facts ->> 'complete', NULL, facts -> 'complete'),
        'part', surplus)
    ) AS page_json
FROM parts;
CREATE INDEX queue_order ON queue (account, place);
CREATE INDEX queue_entry ON queue (entry);
CREATE INDEX queue_device ON queue (device);
CREATE UNIQUE INDEX queue_open ON queue
    (coalesce(device, account || ' ' || freed_from, account), entry) WHERE is_open;
CREATE VIEW all_items AS               -- of the queue, with what they send
SELECT queue.id, entry, title, parts.name, type, source, file_type, size, seen_from,
    state, queue.created_at, percent, bytes, speed, error, error_code, error_arguments,
    attempts, furthest, attempted,
    size || ' ' || coalesce(mtime, '') AS version, -- of the file
    ended_at, place, status, is_open, device, freed_from, queue.key, client,
    replaces, action, cleared_at, queue.account AS sender, viewers.name AS account,
    viewers.age AS sender_age,
    owners.account AS owner,           -- of its device
    coalesce(owners.age, 99) AS owner_age,
    (SELECT paused_by FROM keys WHERE keys.id = coalesce(device, queue.key))
        AS paused_by,
    coalesce(devices.shared, 0) AS is_shared
FROM queue JOIN parts ON parts.id = entry
JOIN viewers ON viewers.account = queue.account
LEFT JOIN keys AS devices ON devices.id = device
LEFT JOIN viewers AS owners ON owners.account = devices.account;
CREATE VIEW items AS SELECT * FROM all_items WHERE cleared_at IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('accounts',5);
COMMIT;
