// Dedupvet finds mistakes in tools that are written with package dedup: those
// that no test sees, because the tool works until a call is repeated.
//
//	go install github.com/tooldedup/dedup/dedupvet@latest
//	go vet -vettool=$(which dedupvet) ./...
//
// It also runs on its own, as `dedupvet ./...`. Either way -NAME runs one
// analyzer, -NAME=false leaves one out, and `dedupvet help NAME` explains it. The
// exit code is 0 where nothing is found; otherwise go vet answers 1 and dedupvet 3.
//
// The analyzers look into effects: functions that are passed where a dedup.Effect
// is expected, the Run of a tool, the Archive of a sweep, what an external.Tool writes
// in a transaction, and the functions of the same package that these call.
//
//   - effectwrites: a statement through something else than the transaction
//   - effectgoroutine: a goroutine that uses the transaction
//   - effectoutside: a request, a command or a pause
//
// Or at the keys of calls, wherever they are made:
//
//   - keysource: a key made of the time or of random values, also one that the Perform
//     of an external.Tool sends
//   - keyloop: a key minted inside a retry loop
//
// A comment `//dedupvet:ignore reason` silences the findings on its line, or on
// the next one if it stands alone. Without a reason they stay.
//
// README.md shows a bad and a good example of each, and what they cannot see. Each
// analyzer is a package of its own, for those who run several in one program.
package main
