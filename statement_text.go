package dedup

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// statementText is what is made of a Statement's SQL, once for each text.
type statementText struct {
	// params is how many parameters it has.
	params int
	// effect runs the statement and returns how many rows it gave, and the row.
	effect query
	// withRecord runs the statement and writes its record. It has the parameters
	// of the statement, and then those of queueWhole. withLook does the same, and
	// looks first whether there is a record.
	withRecord, withLook query
	// took is how long a call's statement took the last time, in nanoseconds; 0
	// where it failed.
	took atomic.Int64
}

// statementTexts remember what was made of the texts that were used.
type statementTexts struct {
	table string
	async bool // Options.AsyncCommit
	limit int  // Options.MaxResultBytes

	mu sync.RWMutex
	m  map[string]*statementText
}

// maxStatementTexts bounds the memory of programs that put values into their
// texts. It is the size of pgx's own cache of statements.
const maxStatementTexts = 512

// of makes a statement ready to be sent, or returns an *InvalidCallError.
func (t *statementTexts) of(ctx context.Context, stmt Statement) (*boundStatement, error) {
	sql, args := stmt.SQL, stmt.Args
	if len(args) > 0 {
		if rewriter, ok := args[0].(pgx.QueryRewriter); ok {
			var err error
			if sql, args, err = rewriter.RewriteQuery(ctx, nil, sql, args[1:]); err != nil {
				return nil, &InvalidCallError{Field: "Statement", Reason: "could not be rewritten", Err: err}
			}
		}
	}
	text, err := t.text(sql)
	if err != nil {
		return nil, err
	}
	if len(args) != text.params {
		return nil, &InvalidCallError{Field: "Statement", Reason: fmt.Sprintf("has %d parameters and %d arguments", text.params, len(args))}
	}
	return &boundStatement{statementText: text, args: args, onError: stmt.OnError}, nil
}

func (t *statementTexts) text(sql string) (*statementText, error) {
	t.mu.RLock()
	text := t.m[sql]
	t.mu.RUnlock()
	if text != nil {
		return text, nil
	}
	text, err := t.newText(sql)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxStatementTexts {
		t.m = make(map[string]*statementText)
	}
	t.m[sql] = text
	return text, nil
}

func (t *statementTexts) newText(sql string) (*statementText, error) {
	with, params, err := asWith(sql)
	if err != nil {
		return nil, err
	}
	if params+recordParams > maxPostgresParams {
		return nil, &InvalidCallError{Field: "Statement", Reason: fmt.Sprintf("has %d parameters; at most %d are possible", params, maxPostgresParams-recordParams)}
	}
	// p is the text of the library's nth parameter.
	p := func(n int) string { return "$" + strconv.Itoa(params+n) }

	text := &statementText{params: params}
	text.effect = newQuery(with + `
SELECT count(*), max(row_to_json(effect.*)::text) FROM ` + effectName + ` AS effect`)

	// What must be known before the effect comes first and raises: that no twin is
	// in flight, which the primary key would wait for. So twins write nothing. A
	// sub-select of its own in a CASE is run when the CASE comes to it, and not before;
	// OFFSET 0 keeps it from being put in twice. None of this decides: the primary
	// key does.
	//
	// An outcome of NULL raises as well: the effect returned no row, or too long a
	// one, or has changed the encoding in which texts are sent and read. Then the next
	// statement of its transaction would store its key as other characters, and the
	// key's next call would be a stranger. Several rows raise by themselves.
	durable := ""
	if !t.async {
		durable = `
                         WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
                              AND pg_catalog.set_config('synchronous_commit', 'on', true) <> 'on' THEN '` + gateMark + `synchronous_commit could not be turned on'`
	}
	whole := func(look string) query {
		return newQuery(with + `
INSERT INTO ` + t.table + ` (scope, tool, key, fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at)
SELECT ` + p(1) + `::text, ` + p(2) + `::text, ` + p(3) + `::text, ` + p(4) + `::bytea, ` + p(5) + `::bytea,
       CASE WHEN octet_length(effect.result) <= ` + strconv.Itoa(t.limit) + ` AND pg_catalog.pg_client_encoding() = 'UTF8'` + limited(p(9)) + ` THEN 'done' END, effect.result,
       effect.ended, effect.ended + ` + p(6) + `::interval, effect.ended + ` + p(7) + `::interval
  FROM (SELECT CASE WHEN (CASE` + look + `
                         WHEN NOT pg_catalog.pg_try_advisory_xact_lock(` + p(8) + `::bigint) THEN '` + gateMark + `a twin of this call is in flight'` + durable + `
                         ELSE 'true' END)::boolean
               THEN (SELECT row_to_json(effect.*)::text FROM ` + effectName + ` AS effect) END AS result, pg_catalog.clock_timestamp() AS ended OFFSET 0) AS effect
RETURNING result, created_at`)
	}
	text.withLook = whole(fmt.Sprintf(`
                         WHEN EXISTS (SELECT FROM %s WHERE scope = %s::text AND tool = %s::text AND key = %s::text) THEN '%sthis call has a record'`,
		t.table, p(1), p(2), p(3), gateMark))
	text.withRecord = whole("")
	return text, nil
}

// gateMark begins what the gate raises, as the text that is no boolean.
const gateMark = "tool_dedup: "

const (
	recordParams      = 9
	maxPostgresParams = 65_535 // an int16 of the protocol
)

// queueWhole queues withRecord or withLook.
func (p *pipeline) queueWhole(whole query, s *boundStatement, req *request) error {
	return p.queueArgs(whole, s.args, textParam(req.scope), textParam(req.tool), textParam(req.key),
		bytesParam(req.fingerprint[:]), bytesParam(req.argDigests),
		ageParam(req.retention.keep()), ageParam(req.retention.forget()), intParam(req.lock), limitParam(hurried(req.maxWait)))
}

// limited is a condition that always holds, and limits how long the INSERT waits for
// a twin that does not hold the identity's lock. It is evaluated behind the effect,
// whose own waits it must not cut short.
func limited(limit string) string {
	return `
              AND (` + limit + `::text IS NULL OR pg_catalog.set_config('lock_timeout', ` + shorterTimeout(limit+"::bigint", `pg_catalog.current_setting('lock_timeout')`) + `, true) IS NOT NULL)`
}

func limitParam(limit time.Duration) param {
	if limit == 0 {
		return param{}
	}
	return textParam(lockTimeout(limit))
}

// effectName is the WITH query that holds the statement.
const effectName = "tool_dedup_effect"

// asWith turns a statement into the WITH clause in front of another one, and
// counts its parameters. Its own WITH queries come before it on one level,
// because one that writes may stand nowhere else.
func asWith(sql string) (with string, params int, err error) {
	invalid := func(reason string, args ...any) (string, int, error) {
		return "", 0, &InvalidCallError{Field: "Statement", Reason: fmt.Sprintf(reason, args...)}
	}
	if strings.IndexByte(sql, 0) >= 0 { // where the protocol would end the text
		return invalid("holds a zero byte")
	}
	// The semicolon is only found if no quote and no comment is left open.
	text := skipBlank(sql) + "\n;"
	depth, verb, start, end := 0, "", -1, -1
	var clause withClause
	for rest := text; rest != ""; {
		at := len(text) - len(rest)
		after := afterToken(rest)
		token := rest[:len(rest)-len(after)]
		rest = after
		outermost := depth == 0
		switch {
		case isBlank(token):
			continue
		case token == ";" && skipBlank(rest) != "":
			return invalid("holds more than one statement, or a semicolon between parentheses")
		case token == ";" && depth == 0:
			end, rest = at, ""
			continue
		case token == "(":
			depth++
		case token == ")":
			if depth--; depth < 0 {
				return invalid("closes a parenthesis that it has not opened")
			}
			outermost = depth == 0
		case token[0] == '$' && len(token) > 1 && isDigit(token[1]):
			n, err := strconv.Atoi(token[1:])
			if err != nil || n < 1 || n > maxPostgresParams {
				return invalid("has a parameter %s", token)
			}
			params = max(params, n)
		}
		if !outermost {
			continue
		}
		switch word := strings.ToUpper(token); {
		case start >= 0:
		case verb == "" && word == "WITH":
			verb = word
			clause.endsBefore(word)
		case verb == "" || clause.endsBefore(word):
			verb, start = word, at
		}
	}
	switch {
	case end < 0 && depth > 0:
		return invalid("opens a parenthesis that it does not close")
	case end < 0:
		return invalid("has a quote or a comment that does not end")
	case end == 0 || verb == "":
		return invalid("is empty")
	case start < 0:
		return invalid("has a WITH and nothing after it that begins with SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES")
	case !mainVerbs[verb]:
		return invalid("begins with %s; it must be one SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES that returns a row", verb)
	}
	head := "WITH "
	if start > 0 {
		head = text[:start] + ", "
	}
	return head + effectName + " AS (\n" + text[start:end] + "\n)", params, nil
}

// mainVerbs begin a statement that returns rows. A parenthesis holds a SELECT.
var mainVerbs = map[string]bool{"(": true, "SELECT": true, "INSERT": true, "UPDATE": true, "DELETE": true, "MERGE": true, "VALUES": true, "TABLE": true}

// isBlank tells whether a token means nothing.
func isBlank(token string) bool {
	return strings.TrimLeft(token, " \t\r\n\f\v") == "" || strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*")
}
