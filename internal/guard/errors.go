package guard

import "errors"

var (
	// ErrTxControl: a COMMIT, ROLLBACK, BEGIN or other transaction-control statement was
	// refused. Returned by the methods of the effect's pgx.Tx, and by Verdict.
	ErrTxControl = errors.New("dedup: the transaction belongs to dedup: return nil to commit, an error to roll back")

	// ErrTxAborted: the effect returned no error although one of its statements had failed.
	// Returned by Verdict.
	ErrTxAborted = errors.New("dedup: the effect ignored a failed statement; its transaction was rolled back")

	// ErrTxBusy: the effect returned while a result set or batch was still open. Returned
	// by Verdict.
	ErrTxBusy = errors.New("dedup: the effect left a result set open; close its rows before returning")

	// ErrTxEnded: the transaction was ended inside the effect, past the guard. Statements
	// that are sent now would commit by themselves, so they answer this too. Returned by
	// the methods of the effect's pgx.Tx, and by Verdict.
	ErrTxEnded = errors.New("dedup: the transaction has been ended inside the effect")

	// errPanicked stands for the error of an effect that returned none.
	errPanicked = errors.New("dedup: the effect panicked")
)
