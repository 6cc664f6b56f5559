package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testAnswers(t *testing.T, d *desk) {
	i := d.start(t)
	const tickets = "/tickets"
	created := i.do(t, http.MethodPost, tickets, "k1", fire)
	require.Equal(t, http.StatusCreated, created.status, created.body)
	var ticket struct{ ID int }
	require.NoError(t, json.Unmarshal([]byte(created.body), &ticket))
	require.Equal(t, answer{http.StatusCreated, true, created.body}, i.do(t, http.MethodPost, tickets, "k1", fire))
	require.Equal(t, http.StatusUnprocessableEntity, i.do(t, http.MethodPost, tickets, "k1", strings.ToUpper(fire)).status, "other content")
	require.Equal(t, http.StatusBadRequest, i.do(t, http.MethodPost, tickets, "", fire).status, "no key")

	// A ticket that the database refuses may be corrected under its key.
	refused := i.do(t, http.MethodPost, tickets, "k2", `{"queue": "lobby", "title": "cold"}`)
	require.Equal(t, answer{http.StatusUnprocessableEntity, false, `{"error":"there is no such queue"}`}, refused)
	require.Equal(t, http.StatusCreated, i.do(t, http.MethodPost, tickets, "k2", `{"queue": "support", "title": "cold"}`).status)

	// A key belongs to its account, and a replay requires authentication.
	got, err := i.send(t.Context(), "nobody's", http.MethodPost, tickets, "k1", fire)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, got.status)
	got, err = i.send(t.Context(), "other", http.MethodPost, tickets, "k1", fire)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.status)
	require.False(t, got.replayed)
	require.Equal(t, 2, strings.Count(i.do(t, http.MethodGet, tickets, "", "").body, `"id"`))

	// Closing a ticket twice is a final error. A retry of the first close gets the first answer.
	path := "/tickets/1/close"
	require.Equal(t, 1, ticket.ID)
	require.Equal(t, http.StatusOK, i.do(t, http.MethodPost, path, "c1", "").status)
	require.Equal(t, http.StatusOK, i.do(t, http.MethodPost, path, "c1", "").status)
	for _, replayed := range []bool{false, true} {
		require.Equal(t, answer{http.StatusConflict, replayed, `{"error":"the ticket is closed already"}`}, i.do(t, http.MethodPost, path, "c2", ""))
	}
	require.Equal(t, http.StatusNotFound, i.do(t, http.MethodPost, "/tickets/99/close", "c3", "").status)
	require.Contains(t, i.do(t, http.MethodGet, "/operations/create_ticket/k1", "", "").body, `"state":"done"`)

	line := i.logged(t, "tool_call_deduplicated")
	require.Equal(t, "create_ticket", line["tool"])
	require.Equal(t, "acme", line["scope"])
}

func testMails(t *testing.T, d *desk) {
	i := d.start(t)
	d.exec(t, `INSERT INTO blocked_senders (account, sender) VALUES ('acme', 'spam@mail.example')`)
	const mail = `{"message_id": "<1@mail.example>", "from": "ada@mail.example", "subject": "no coffee"}`
	both := []<-chan sent{i.begin(t, http.MethodPost, "/mails", "", mail), i.begin(t, http.MethodPost, "/mails", "", mail)}
	for _, delivery := range both {
		got := wait(t, delivery)
		require.NoError(t, got.err)
		require.Equal(t, http.StatusOK, got.answer.status, got.answer.body)
		require.Contains(t, got.answer.body, `"ticket":{"id":1,`)
	}
	require.Contains(t, i.do(t, http.MethodPost, "/mails", "", mail).body, `"deliveries":3`)
	require.Equal(t, 1, d.count(t, `SELECT count(*) FROM tickets`))

	// Another mail with its Message-ID is refused, and is not counted as a delivery.
	require.Equal(t, http.StatusUnprocessableEntity, i.do(t, http.MethodPost, "/mails", "", strings.Replace(mail, "no", "more", 1)).status)
	require.Equal(t, 3, d.count(t, `SELECT deliveries FROM mails`))

	// A refusal is an answer: it is committed with its deliveries.
	blocked := `{"message_id": "<2@mail.example>", "from": "spam@mail.example", "subject": "win"}`
	for range 2 {
		require.Equal(t, answer{http.StatusForbidden, false, `{"error":"the sender is blocked"}`}, i.do(t, http.MethodPost, "/mails", "", blocked))
		d.exec(t, `DELETE FROM blocked_senders`)
	}
	require.Equal(t, 2, d.count(t, `SELECT deliveries FROM mails WHERE ticket_id IS NULL`))
	require.Equal(t, http.StatusBadRequest, i.do(t, http.MethodPost, "/mails", "", `{"from": "ada@mail.example"}`).status)
}

// Failed rows do not affect the others, and may be corrected under the same id.
func testFailedRows(t *testing.T, d *desk) {
	i := d.start(t)
	run := func(file, want string) {
		t.Helper()
		require.Equal(t, answer{status: http.StatusOK, body: want}, i.do(t, http.MethodPut, "/imports/monday", "", file))
	}
	run("support,cold\nlobby,dark\nsupport,\n", `{"created":1,"replayed":0,"failed":[{"row":1,"error":"there is no such queue"},{"row":2,"error":"a ticket needs a title"}]}`)
	run("support,cold\nsupport,dark\nsupport,loud\n", `{"created":2,"replayed":1,"failed":[]}`)
	run("support,warm\nsupport,dark\nsupport,loud\n", `{"created":0,"replayed":2,"failed":[{"row":0,"error":"this was sent before with other content"}]}`)
	require.Equal(t, 3, i.progress(t).Done)
	require.Equal(t, http.StatusBadRequest, i.do(t, http.MethodPut, "/imports/tuesday", "", "support\n").status)
	require.Equal(t, http.StatusNotFound, i.do(t, http.MethodGet, "/imports/tuesday", "", "").status)
}

// The command lines of README.md work unchanged.
func testReadme(t *testing.T, d *desk) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: the lines of README.md were not tried", program)
		}
	}
	i := d.start(t)
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, script, ok := strings.Cut(string(text), "```sh\n# A ticket.")
	require.True(t, ok)
	script, _, _ = strings.Cut(script, "```")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", "#"+strings.ReplaceAll(script, "127.0.0.1:8080", i.addr))
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s", out)
	require.Equal(t, 2, strings.Count(string(out), "HTTP/1.1 201 "), string(out))
	require.Equal(t, 4, strings.Count(string(out), "HTTP/1.1 200 "), string(out))
	require.Equal(t, 1, strings.Count(string(out), "Idempotency-Replayed: true"), string(out))
	require.Contains(t, string(out), `"created":2,`)
	require.Equal(t, 4, d.count(t, `SELECT count(*) FROM tickets`))
}
