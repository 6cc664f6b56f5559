// Package pgserver finds a PostgreSQL server, or starts one, for the tests, the
// demo and the benchmarks of this module.
//
// The ways are tried in a fixed order, and the first that works is taken:
//
//  1. the server named by the environment variable DEDUP_DATABASE_URL;
//  2. a container of [Image], where a Docker daemon answers within two seconds;
//  3. server programs that are installed on this machine, newest version first;
//  4. server programs downloaded by github.com/fergusstrange/embedded-postgres.
//
// A way that is there but fails is passed over, and [Server.Source] says why.
// Where none works the error is a [*NotFoundError] with one entry for each way.
//
// The servers of ways 3 and 4 are private: they listen on 127.0.0.1 only and trust
// whoever connects there, keep their data in a temporary folder, and do not outlive
// the process that started them, however that process ends (on Windows: if it
// calls [Server.Stop]). What a killed process leaves in the temporary folder is
// removed by the next start. PostgreSQL refuses to run as root, so for root they
// run as the account "postgres" or, where there is none, "nobody".
package pgserver
