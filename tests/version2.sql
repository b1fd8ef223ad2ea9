-- What version 2 of the schema holds: made by the program, and dumped by SQLite.
PRAGMA application_id = 1667331172;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    password TEXT NOT NULL,            -- see hash_password
    admin INTEGER NOT NULL,            -- 0 or 1
    created_at TEXT NOT NULL           -- UTC, YYYY-MM-DDTHH:MM:SS, as all times here
) STRICT;
INSERT INTO "accounts" VALUES(1,'anna','scrypt$16$1$1$c2FsdA==$aGFzaA==',1,'2023-11-14T22:13:20');
INSERT INTO "accounts" VALUES(2,'ben','scrypt$16$1$1$c2FsdA==$aGFzaA==',0,'2023-11-14T22:13:20');
CREATE TABLE addresses (
    digest BLOB PRIMARY KEY,           -- hash_token of the token in the address
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    item TEXT UNIQUE REFERENCES queue ON DELETE CASCADE, -- NULL: the account's own
    token TEXT                         -- only of the account's own: the page shows it
) STRICT;
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO "counters" VALUES('list',1);
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
    sample TEXT,                       -- digest of size, first and last 64 KiB
    sha256 TEXT,                       -- of the content, once somebody asked for it
    sha256_size INTEGER,               -- the file's size and mtime at that time
    sha256_mtime INTEGER,
    state TEXT NOT NULL CHECK (state IN ('here', 'gone', 'offline')),
    gone_at TEXT,                      -- when a scan first missed it
    facts TEXT NOT NULL,               -- JSON: name and metadata that the file tells
    facts_version INTEGER NOT NULL,    -- FACTS_VERSION of the program that read them
    overrides TEXT NOT NULL DEFAULT '{}', -- JSON: what an admin put over the facts
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    icon TEXT,                         -- this and the rest: made by derived_columns
    name TEXT NOT NULL,
    sort_name TEXT NOT NULL,           -- the name, case folded
    entry_json TEXT NOT NULL           -- the Entry of the interface
) STRICT;
INSERT INTO "entries" VALUES('184e5723a7f1c7f9','filepath','/srv/games/Celeste [01002B30028F6000][v0].nsp','nsp',3,'/srv/games',1000000000000000000,3,'v','s1',NULL,NULL,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "0", "title_id": "01002B30028F6000", "icon": "d1"}',1,'{}','2023-11-14T22:13:20','scanner','d1','Celeste','celeste','{"id":"184e5723a7f1c7f9","name":"Celeste","source":"/srv/games/Celeste [01002B30028F6000][v0].nsp","type":"filepath","file_type":"nsp","size":3,"created_at":"2023-11-14T22:13:20","created_by":"scanner","metadata":{"description":"","version":"0","title_id":"01002B30028F6000","icon":"d1"}}');
INSERT INTO "entries" VALUES('006a044dbf4bd3d6','filepath','/srv/games/Celeste [01002B30028F6800][v65536].nsp','nsp',4,'/srv/games',1000000000000000000,4,'v','s2',NULL,NULL,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "65536", "patch": 1, "title_id": "01002B30028F6800"}',1,'{}','2023-11-14T22:13:20','scanner',NULL,'Celeste','celeste','{"id":"006a044dbf4bd3d6","name":"Celeste","source":"/srv/games/Celeste [01002B30028F6800][v65536].nsp","type":"filepath","file_type":"nsp","size":4,"created_at":"2023-11-14T22:13:20","created_by":"scanner","metadata":{"description":"","version":"65536","patch":1,"title_id":"01002B30028F6800"}}');
CREATE TABLE icons (
    digest TEXT PRIMARY KEY,           -- as in the entries' metadata.icon
    jpeg BLOB NOT NULL
) STRICT;
INSERT INTO "icons" VALUES('d1',X'FFD8FF');
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    label TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the key
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    requests INTEGER NOT NULL DEFAULT 0,
    by_login INTEGER NOT NULL DEFAULT 0 -- 1: made by a client's login, see KEY_LIVES
) STRICT;
INSERT INTO "keys" VALUES('7d22691881b69606',1,'living room',X'C826A7DFFFAD2CBA083A12FEB70461016AF928B5F401E25130D00EFD2C367ADC','2023-11-14T22:13:20',NULL,0,0);
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
    client TEXT,                       -- what that client calls itself, if it does
    ended_at TEXT                      -- when it was completed, failed or cancelled
) STRICT;
INSERT INTO "queue" VALUES('6e095094b0501c5d',1,'184e5723a7f1c7f9',1,'completed',0.0,0,0,'','2023-11-14T22:13:20','2023-11-14T22:13:20','7d22691881b69606',NULL,'2023-11-14T22:13:20');
INSERT INTO "queue" VALUES('c6032c1f5e96a905',2,'184e5723a7f1c7f9',1,'pending',0.0,0,0,'','2023-11-14T22:13:20',NULL,NULL,NULL,NULL);
INSERT INTO "queue" VALUES('ab53cc16605c575d',1,'006a044dbf4bd3d6',2,'processing',0.0,0,0,'','2023-11-14T22:13:20','2023-11-14T22:13:20','7d22691881b69606',NULL,NULL);
CREATE TABLE sent (                    -- outlives the queue's items
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    version TEXT NOT NULL,             -- metadata.version of the entry at that time
    sent_at TEXT NOT NULL,             -- when it was completed last
    PRIMARY KEY (entry, account)
) STRICT;
INSERT INTO "sent" VALUES('184e5723a7f1c7f9',1,'0','2023-11-14T22:13:20');
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the cookie
    browser TEXT NOT NULL,             -- its User-Agent
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX entries_listed ON entries (state, sort_name, id);
CREATE INDEX entries_icon ON entries (icon) WHERE icon IS NOT NULL;
CREATE INDEX queue_order ON queue (account, place);
CREATE INDEX queue_entry ON queue (entry);
CREATE UNIQUE INDEX queue_open ON queue (account, entry) WHERE is_open;
CREATE UNIQUE INDEX addresses_to_browse ON addresses (account) WHERE item IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('accounts',2);
COMMIT;
