-- What version 3 of the schema holds: made by the program, and dumped by SQLite.
PRAGMA application_id = 1667331172;
PRAGMA user_version = 3;
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
INSERT INTO "addresses" VALUES(X'8817C65DD6C5327687200BB9D63BFBFA026E05BBF201B7B3C96609A5B22AC459',2,NULL,'abcdefghjkmnpqrstuvw');
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
INSERT INTO "entries" VALUES('177576f8130a855e','filepath','/srv/games/Celeste [01002B30028F6000][v0].nsp','nsp',3,'/srv/games',1000000000000000000,3,'v',NULL,'s1',NULL,NULL,NULL,NULL,'here',NULL,'{"name": "Celeste", "description": "", "version": "0", "title_id": "01002B30028F6000", "patch": 0}',1,'{}','2023-11-14T22:13:20','scanner',NULL,'base','01002B30028F6000','01002B30028F6000',0,'Celeste','Celeste','celeste','{"id":"177576f8130a855e","name":"Celeste","source":"/srv/games/Celeste [01002B30028F6000][v0].nsp","type":"filepath","file_type":"nsp","size":3,"created_at":"2023-11-14T22:13:20","created_by":"scanner","metadata":{"description":"","version":"0","title_id":"01002B30028F6000","patch":0,"kind":"base","base_id":"01002B30028F6000"}}','{"id":"177576f8130a855e","name":"Celeste","type":"filepath","file_type":"nsp","size":3,"created_at":"2023-11-14T22:13:20","state":"here","kind":"base","base_id":"01002B30028F6000","title_id":"01002B30028F6000","version":"0","patch":0}');
CREATE TABLE icons (
    digest TEXT PRIMARY KEY,           -- of a file's icon, or entries.cover
    image BLOB NOT NULL                -- a JPEG or PNG
) STRICT;
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
INSERT INTO "keys" VALUES('6ec22145ff2f511c',1,'Living room',X'3AEB64205BE5F9BBB2D4C85FC7B4476C00399E14082FF067F25C25FFCADD375B','2023-11-14T22:13:20','2023-11-14T22:13:20',1,0,1,0,'ready');
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
INSERT INTO "queue" VALUES('1dda39ccf6fa1a40',1,'177576f8130a855e',1,'completed',0.0,0,0,'','2023-11-14T22:13:20','2023-11-14T22:13:20',NULL,NULL,NULL,NULL,'2023-11-14T22:13:20');
INSERT INTO "queue" VALUES('6485e94e99c56a4e',2,'177576f8130a855e',2,'pending',0.0,0,0,'','2023-11-14T22:13:20',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE scan_request (            -- at most one row, of the command scan
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('asked', 'running', 'done')),
    report TEXT NOT NULL               -- how far the service is, or what changed
) STRICT;
CREATE TABLE sent (                    -- outlives the queue's items
    entry TEXT NOT NULL REFERENCES entries ON DELETE CASCADE,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    version TEXT NOT NULL,             -- metadata.version of the entry at that time
    device TEXT NOT NULL DEFAULT '',   -- id of its key, which may be revoked; '': none
    sent_at TEXT NOT NULL,             -- when it was completed last
    PRIMARY KEY (entry, account, version, device)
) STRICT;
INSERT INTO "sent" VALUES('177576f8130a855e',1,'0','','2023-11-14T22:13:20');
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
    digest BLOB NOT NULL UNIQUE,       -- hash_token of the cookie
    browser TEXT NOT NULL,             -- its User-Agent
    created_at TEXT NOT NULL
) STRICT;
INSERT INTO "sessions" VALUES('7a2a1b71d3164ef6',1,X'37127B4D55C6D636FBAB627BFB592E6928EF97076E1228E168C2BC2AC4EE12C4','Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0','2023-11-14T22:13:20');
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
INSERT INTO "sqlite_sequence" VALUES('accounts',2);
COMMIT;
