package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"

	"github.com/tooldedup/dedup/httpdedup"
)

// accounts maps the hash of a token to its account.
type accounts map[[sha256.Size]byte]string

type accountKey struct{}

// readTokens reads "token=account,token=account".
func readTokens(list string) (accounts, error) {
	all := accounts{}
	for pair := range strings.SplitSeq(list, ",") {
		token, account, ok := strings.Cut(pair, "=")
		if !ok || token == "" || account == "" {
			return nil, errors.New("must be a list of token=account, with commas between them")
		}
		all[sha256.Sum256([]byte(token))] = account
	}
	return all, nil
}

// authenticate puts the account of the request's token into its context.
func (a accounts) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		account, ok := a[sha256.Sum256([]byte(token))]
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "send a token that is known")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, account)))
	})
}

// account returns the account of an authenticated request.
func account(ctx context.Context) string {
	name, _ := ctx.Value(accountKey{}).(string)
	return name
}

// accountOf is the scope of a request. It refuses a request that was not authenticated, so a
// middleware in the wrong place answers no request.
func accountOf(r *http.Request) (string, error) {
	if name := account(r.Context()); name != "" {
		return name, nil
	}
	return "", &httpdedup.ScopeError{Status: http.StatusUnauthorized, Challenge: "Bearer"}
}
