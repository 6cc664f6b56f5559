// Package dedup makes write tools take effect once.
//
// A write tool that is called any number of times with one key (retries,
// re-deliveries, resumed runs, races, crashes, a lost answer to COMMIT) has its
// effect in the database once, and every caller gets the first caller's result:
//
//	result, err := dedup.Do(ctx, d, dedup.Call{
//		Scope: account, Tool: "create_ticket", Key: key, Args: in,
//	}, func(ctx context.Context, tx pgx.Tx) (Ticket, error) {
//		return insertTicket(ctx, tx, in)
//	})
//
// The tool's writes and the record of its result are one Postgres transaction,
// and the primary key of tool_dedup decides every race. There is no lease, no
// lock server, and no moment in which the effect is there and its record is not.
//
// # What it promises, and what not
//
// Inside one database an effect and its record are committed together or not at
// all, so the state stays single whatever fails, an asynchronous failover
// included: that loses effect and record together, and only the
// acknowledgement was false. What leaves the database is not in the
// transaction: an HTTP call or an email inside an effect happens as often as the
// effect is run, which may be more than once. Package external is for those.
//
// # Words
//
// The scope is the tenant on whose behalf a tool runs, the tool a stable name,
// the key one intent; together they are the identity of a call. The fingerprint
// is a hash of the arguments. The effect is the tool's writes, the record the
// stored row. A twin is another call with the same identity; a replay answers it
// from the record. A tombstone is a record whose result has been dropped but
// whose identity still refuses to run.
//
// # Errors
//
// An error that an effect returns comes back as it is, and nothing is stored
// unless it is wrapped by [Final] or Call.StoreErrors is set. Transient database errors are retried instead,
// and end as an ErrAttemptsExhausted when no retry helped. The library's
// own errors begin with its name and the tool's; find them with [errors.Is] and
// [errors.As], because the name is wrapped around them. They are always the answers of this
// call: where an effect returns the answer of a call inside it, errors.Is and errors.As do not find
// the inner call's answer (see [Effect]). Beside it:
//
//	error                  typed as        returned by                    call again with the same key?
//	ErrRefused             *RefusedError   all that run effects           no: this is the answer; DoTx: commit it
//	ErrKeyReused           *Error          all that run effects           no: first arguments, or a new key
//	ErrExpired             *Error          all that run effects           no: it ran
//	ErrInFlight            -               all that run effects, Reset    yes
//	ErrOutcomeUnknown      *Error          all that run effects, not DoTx yes: it may have happened; BeginFunc: see there
//	ErrAttemptsExhausted   *Error          all that run effects, not DoTx yes: nothing happened
//	ErrRestartTx           *Error          DoTx                           yes, the whole transaction
//	ErrBroken              *Error          all that run effects           no: repair, then Reset
//	ErrSchema              *Error          all                            no: fix the schema
//	ErrInvalid             *InvalidError   all, and New                   no: fix the call, the option or the tool
//	context's errors       -               all but New                    yes
//
// [IsRetryable] answers the last column, [IsTransient] whether a fault of the
// database is worth a fresh transaction.
package dedup
