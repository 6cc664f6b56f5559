-- +goose Up
ALTER TABLE orders ADD COLUMN paid_at timestamptz;

-- +goose Down
ALTER TABLE orders DROP COLUMN paid_at;
