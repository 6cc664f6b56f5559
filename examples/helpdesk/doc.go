// Helpdesk is a small ticket service that shows how a team adopts dedup. README.md explains its
// parts and how to run it.
package main

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.30.0 generate
