// Package pgserver finds a PostgreSQL server, or starts one, for the tests, the demo and the
// benchmarks of this repository.
//
// It tries these ways in order and takes the first that works:
//
//  1. the server named by the environment variable DEDUP_DATABASE_URL;
//  2. a container of [Image], if a Docker daemon answers within two seconds;
//  3. server programs that are installed on this machine, newest version first;
//  4. server programs downloaded by github.com/fergusstrange/embedded-postgres.
//
// If a way is available but fails, [Server.Source] has the reason and the next way is tried. If no
// way works, the error lists each of them with its reason and a fix.
//
// The servers of ways 3 and 4 are private: they listen on 127.0.0.1 only, trust every connection,
// and keep their data in a temporary folder. When the process that started them ends or dies, a
// watchdog ends them and removes the folder. PostgreSQL refuses to run as root. For root they run
// as the account "postgres" or, without that account, as "nobody". The package does not compile on
// Windows; WSL runs it.
package pgserver
