package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/replay/payment"
)

func TestExternal(t *testing.T) {
	t.Parallel()
	r := compared()
	r.Naive = nil
	r.External = &External{
		Kind: payment.LookUp, Calls: 63, Refused: 2, Requests: 99, Parked: 21, Happened: 3,
		Mishaps: map[payment.Mishap]int{payment.RequestLost: 11, payment.KilledAfter: 12},
	}
	require.Empty(t, r.Failure())
	var out bytes.Buffer
	require.NoError(t, Table(&out, r))
	golden(t, "external.txt", out.Bytes())

	r.External.Doubled, r.External.Lost, r.External.Wrong, r.External.Local, r.External.Known = 1, 2, 3, 4, 5
	require.Equal(t, "1 doubled payments, 2 lost payments, 3 records that are not in the book, "+
		"4 local writes that are not there once, 5 parked, and it could be known", r.Failure())
}
