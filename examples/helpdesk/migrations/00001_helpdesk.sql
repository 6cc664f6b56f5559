-- +goose Up

CREATE TABLE queues (
    name text NOT NULL,
    CONSTRAINT queues_pkey PRIMARY KEY (name)
);

INSERT INTO queues (name) VALUES ('support'), ('billing');

CREATE TABLE tickets (
    id         bigint      GENERATED ALWAYS AS IDENTITY,
    account    text        NOT NULL,
    queue      text        NOT NULL,
    title      text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    closed_at  timestamptz,
    CONSTRAINT tickets_pkey PRIMARY KEY (id),
    CONSTRAINT tickets_queue_fkey FOREIGN KEY (queue) REFERENCES queues (name),
    CONSTRAINT tickets_title_filled CHECK (title <> '')
);

CREATE INDEX tickets_account ON tickets (account, id);

CREATE TABLE blocked_senders (
    account text NOT NULL,
    sender  text NOT NULL,
    CONSTRAINT blocked_senders_pkey PRIMARY KEY (account, sender)
);

-- Every delivery of a mail is counted; the ticket that it opened is there once.
CREATE TABLE mails (
    account    text   NOT NULL,
    message_id text   NOT NULL,
    ticket_id  bigint,
    deliveries int    NOT NULL DEFAULT 1,
    CONSTRAINT mails_pkey PRIMARY KEY (account, message_id),
    CONSTRAINT mails_ticket_fkey FOREIGN KEY (ticket_id) REFERENCES tickets (id)
);

CREATE TABLE imports (
    account     text   NOT NULL,
    id          text   NOT NULL,
    total       bigint NOT NULL,
    done        bigint NOT NULL DEFAULT 0,
    finished_at timestamptz,
    CONSTRAINT imports_pkey PRIMARY KEY (account, id)
);

-- +goose Down

DROP TABLE imports, mails, blocked_senders, tickets, queues;
