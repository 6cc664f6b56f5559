package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const fire = `{"queue": "billing", "title": "the printer is on fire"}`

// lockBilling blocks inserts of tickets into the queue billing.
const lockBilling = `SELECT FROM queues WHERE name = 'billing' FOR UPDATE`

// The process is killed while the handler's INSERT waits.
func testKilledInEffect(t *testing.T, d *desk) {
	first := d.start(t)
	testKilled(t, d, first, lockBilling)
}

// The process is killed while the server handles its COMMIT, which the server finishes: the retry
// gets the answer that no client saw.
func testKilledInCommit(t *testing.T, d *desk) {
	first := d.start(t)
	d.exec(t, `CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(7);
			RETURN NULL;
		END $$`)
	d.exec(t, `CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON tickets
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit()`)
	retried := testKilled(t, d, first, `SELECT pg_advisory_xact_lock(7)`)
	require.True(t, retried.replayed, "the killed call was committed")
}

func testKilled(t *testing.T, d *desk, first *instance, hold string) (retried answer) {
	release := d.hold(t, hold)
	lost := first.begin(t, http.MethodPost, "/tickets", "k1", fire)
	d.held(t)
	first.kill()
	require.Error(t, wait(t, lost).err)

	second := d.start(t)
	retry := second.begin(t, http.MethodPost, "/tickets", "k1", fire)
	release()
	got := wait(t, retry)
	require.NoError(t, got.err)
	require.Equal(t, http.StatusCreated, got.answer.status, got.answer.body)
	again := second.do(t, http.MethodPost, "/tickets", "k1", fire)
	require.Equal(t, answer{http.StatusCreated, true, got.answer.body}, again)
	require.Equal(t, 1, d.count(t, `SELECT count(*) FROM tickets`))
	require.Equal(t, 1, d.count(t, `SELECT count(*) FROM tool_dedup`))
	return got.answer
}

// importFile has a ticket for billing in its third hundred; the others are for support.
func importFile(t *testing.T, rows int) string {
	t.Helper()
	var out strings.Builder
	w := csv.NewWriter(&out)
	for i := range rows {
		queue := "support"
		if i == 250 {
			queue = "billing"
		}
		require.NoError(t, w.Write([]string{queue, fmt.Sprintf("row %d", i)}))
	}
	w.Flush()
	return out.String()
}

type progress struct {
	Total, Done int
	FinishedAt  *string `json:"finished_at"`
}

func (i *instance) progress(t *testing.T) (p progress) {
	t.Helper()
	got := i.do(t, http.MethodGet, "/imports/monday", "", "")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.NoError(t, json.Unmarshal([]byte(got.body), &p))
	return p
}

// The process is killed in the third hundred of an import. The next run finds the rows of the first
// two, and maybe those of the third, which the server may have committed.
func testKilledInImport(t *testing.T, d *desk) {
	const rows = 450
	file := importFile(t, rows)
	first := d.start(t)
	release := d.hold(t, lockBilling)
	lost := first.begin(t, http.MethodPut, "/imports/monday", "", file)
	d.held(t)
	require.Equal(t, progress{Total: rows, Done: 200}, first.progress(t))
	first.kill()
	require.Error(t, wait(t, lost).err)

	second := d.start(t)
	require.Equal(t, progress{Total: rows, Done: 200}, second.progress(t))
	rerun := second.begin(t, http.MethodPut, "/imports/monday", "", file)
	release()
	got := wait(t, rerun)
	require.NoError(t, got.err)
	require.Equal(t, http.StatusOK, got.answer.status, got.answer.body)
	var out imported
	require.NoError(t, json.Unmarshal([]byte(got.answer.body), &out))
	require.Empty(t, out.Failed)
	require.GreaterOrEqual(t, out.Replayed, int64(200))
	require.EqualValues(t, rows, out.Created+out.Replayed)

	at := second.progress(t)
	require.Equal(t, rows, at.Done)
	require.NotNil(t, at.FinishedAt)
	require.Equal(t, rows, d.count(t, `SELECT count(*) FROM tickets`))
	require.Equal(t, rows, d.count(t, `SELECT count(DISTINCT title) FROM tickets`))
}
