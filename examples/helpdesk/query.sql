-- name: CreateTicket :one
INSERT INTO tickets (account, queue, title)
VALUES ($1, $2, $3)
RETURNING *;

-- name: CloseTicket :one
UPDATE tickets
SET closed_at = now()
WHERE account = $1 AND id = $2 AND closed_at IS NULL
RETURNING *;

-- name: GetTicket :one
SELECT *
FROM tickets
WHERE account = $1 AND id = $2;

-- name: ListTickets :many
SELECT *
FROM tickets
WHERE account = $1 AND id > @after_id
ORDER BY id
LIMIT 100;

-- name: SenderIsBlocked :one
SELECT EXISTS (
    SELECT FROM blocked_senders
    WHERE account = $1 AND sender = $2
);

-- name: CountDelivery :one
INSERT INTO mails AS m (account, message_id, ticket_id)
VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT mails_pkey DO UPDATE
SET deliveries = m.deliveries + 1
RETURNING deliveries;

-- name: BeginImport :exec
INSERT INTO imports (account, id, total)
VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT imports_pkey DO UPDATE
SET total = EXCLUDED.total,
    finished_at = NULL;

-- A run that starts again passes the rows of the run before: done never falls.
-- name: AdvanceImport :exec
UPDATE imports
SET done = greatest(done, @done::bigint)
WHERE account = $1 AND id = $2;

-- name: FinishImport :exec
UPDATE imports
SET done = total,
    finished_at = now()
WHERE account = $1 AND id = $2;

-- name: GetImport :one
SELECT *
FROM imports
WHERE account = $1 AND id = $2;
