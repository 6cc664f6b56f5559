// Package dedup makes write tools take effect once.
//
// Call a write tool any number of times with one key: its effect in the database happens once, and
// every caller gets the first caller's result. That holds for retries, redeliveries, races, crashes
// and a lost reply to COMMIT:
//
//	result, err := dedup.Do(ctx, d, dedup.Call{
//		Scope: account, Tool: "create_ticket", Key: key, Args: in,
//	}, func(ctx context.Context, tx pgx.Tx) (Ticket, error) {
//		return insertTicket(ctx, tx, in)
//	})
//
// The tool's writes and the record of its result are one Postgres transaction, and the primary key
// of tool_dedup decides every race. The library needs neither leases nor a lock server, and an
// effect is never visible without its record.
//
// # What it promises, and what not
//
// Inside one database an effect and its record are committed together or not at all, so the effect
// stays single whatever fails. An asynchronous failover may lose both together, although the caller
// got the result. Effects outside the database are not in the transaction: an HTTP call or an
// email inside an effect happens each time that the effect runs, which may be more than once.
// Package external is for those.
//
// # Words
//
// The scope is the tenant on whose behalf a tool runs, the tool a stable name, and the key one
// intent. Together they are the identity of a call. The fingerprint is a hash of the arguments. The
// effect is the tool's writes, and the record the stored row. A twin is another call with the same
// identity. A replay answers a call from the record. A tombstone is a record without its result,
// whose identity still does not run again.
//
// # Errors
//
// An effect's error is returned unchanged, and nothing is stored unless [Final] wraps it or
// Call.StoreErrors is set. Transient database errors are retried instead, and end as an
// ErrAttemptsExhausted if no retry helps. The text of the library's own errors begins with "dedup:"
// and names the tool. Find them with [errors.Is] and [errors.As], because they may be wrapped. They
// always belong to this call: if an effect returns the error of an inner call, errors.Is and
// errors.As do not find it, unless it is an ErrInvalid (see [Effect]). The errors:
//
//	error                  typed as         returned by                          call again with the same key?
//	ErrRefused             *RefusedError    all that run effects                 no: this is the answer; DoTx: commit it
//	ErrKeyReused           *Error           all that run effects                 no: first arguments, or a new key
//	ErrExpired             *Error           all that run effects                 no: it was answered
//	ErrInFlight            -                all that run effects or edit records yes
//	ErrOutcomeUnknown      *Error           all that run effects, not DoTx       yes: it may have happened; BeginFunc: see there
//	ErrAttemptsExhausted   *Error           all that run effects, not DoTx       yes: nothing happened
//	ErrRestartTx           *Error           DoTx                                 yes, the whole transaction
//	ErrBroken              *Error           all that run effects                 no: repair, then Resolve or Reset
//	ErrSchema              *Error           all                                  no: fix the schema
//	ErrInvalid             *InvalidError    all, and New                         no: fix the call, the option or the tool
//	context's errors       -                all but New                          yes
//
// [IsRetryable] reports the last column. [IsTransient] reports whether a fresh transaction may
// avoid a fault of the database.
package dedup
