-- +goose Up
CREATE TABLE orders (id bigint PRIMARY KEY);

-- +goose Down
DROP TABLE orders;
