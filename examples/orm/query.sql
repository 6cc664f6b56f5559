-- name: AddNote :one
INSERT INTO notes (text) VALUES ($1) RETURNING *;

-- name: GetNote :one
SELECT * FROM notes WHERE id = $1;
