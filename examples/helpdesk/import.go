package main

import (
	"context"
	"encoding/csv"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/examples/helpdesk/db"
)

// imported is the answer to an import. Failed rows are not recorded: they run again with the next
// try.
type imported struct {
	Created  int64       `json:"created"`
	Replayed int64       `json:"replayed"`
	Failed   []failedRow `json:"failed"`
}

type failedRow struct {
	Row   int    `json:"row"`
	Error string `json:"error"`
}

// runImport makes a ticket of each row of a CSV file, "queue,title". The same file may be sent any
// number of times under one id: a row with a ticket is not run again. So a run that was interrupted
// continues at its last row.
func (s *server) runImport(w http.ResponseWriter, r *http.Request) {
	file := csv.NewReader(http.MaxBytesReader(w, r.Body, maxBody))
	file.FieldsPerRecord = 2
	rows, err := file.ReadAll()
	if err != nil {
		problem(w, http.StatusBadRequest, "the body is no CSV with queue and title: "+err.Error())
		return
	}
	out, err := s.importRows(r.Context(), account(r.Context()), chi.URLParam(r, "id"), rows)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, out)
}

func (s *server) importRows(ctx context.Context, account, id string, rows [][]string) (imported, error) {
	out := imported{Failed: []failedRow{}}
	err := s.queries.BeginImport(ctx, db.BeginImportParams{Account: account, ID: id, Total: int64(len(rows))})
	if err != nil {
		return out, err
	}
	opts := &dedup.BatchOptions{Size: 100, Progress: func(p dedup.BatchData) {
		// These counts are for observers. The records tell which rows are done.
		if err := s.queries.AdvanceImport(ctx, db.AdvanceImportParams{Account: account, ID: id, Done: p.Calls}); err != nil {
			s.log.WarnContext(ctx, "progress not stored", "import", id, "error", err)
		}
	}}
	for row := range dedup.DoBatch[db.Ticket](ctx, s.d, importCalls(account, id, rows), opts) {
		switch {
		case row.Err == nil && row.Result.Replayed:
			out.Replayed++
		case row.Err == nil:
			out.Created++
		case row.Index < 0, dedup.IsRetryable(row.Err): // the next try continues here
			return out, row.Err
		default:
			_, detail := s.explain(ctx, row.Err)
			out.Failed = append(out.Failed, failedRow{Row: row.Index, Error: detail})
		}
	}
	return out, s.queries.FinishImport(ctx, db.FinishImportParams{Account: account, ID: id})
}

// importCalls makes a call of each row. Its key is made from the import's id and the row's number.
func importCalls(account, id string, rows [][]string) iter.Seq[dedup.StatementCall] {
	return func(yield func(dedup.StatementCall) bool) {
		for i, row := range rows {
			in := newTicket{Queue: row[0], Title: row[1]}
			key, _ := dedup.KeyFromIntent("import", id, "row", strconv.Itoa(i)) // no part is empty
			call := dedup.Call{Scope: account, Tool: "import_ticket", Key: key, Args: in, Retention: dedup.Retention{Result: 7 * 24 * time.Hour}}
			if !yield(dedup.StatementCall{Call: call, Statement: dedup.SQL(db.CreateTicket, account, in.Queue, in.Title)}) {
				return
			}
		}
	}
}

func (s *server) showImport(w http.ResponseWriter, r *http.Request) {
	found, err := s.queries.GetImport(r.Context(), db.GetImportParams{Account: account(r.Context()), ID: chi.URLParam(r, "id")})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, found)
}
