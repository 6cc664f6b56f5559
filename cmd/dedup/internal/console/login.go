package console

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/tooldedup/dedup/dedupweb"
)

// opening is the path of the link, which ends with a token.
const opening = "/open/"

// login gives access to the one browser that opened the link.
type login struct {
	allowed dedupweb.Access
	// token ends the link, and cookie is the value of that browser's cookie.
	token, cookie string
	// cookieName has the port. A browser sends a cookie to all ports of a machine, and another
	// console may listen on one.
	cookieName string
	opened     atomic.Bool
}

func newLogin(allowed dedupweb.Access, port int) *login {
	return &login{allowed: allowed, cookie: rand.Text(), token: rand.Text(), cookieName: fmt.Sprintf("dedup_console_%d", port)}
}

func (l *login) link() string { return opening + l.token }

// access returns the access of a request: allowed with the cookie, else none.
func (l *login) access(r *http.Request) dedupweb.Access {
	cookie, err := r.Cookie(l.cookieName)
	if err != nil || !same(cookie.Value, l.cookie) {
		return dedupweb.Access{}
	}
	return l.allowed
}

// before serves the link itself and passes every other request to the console.
func (l *login) before(console http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, opens := strings.CutPrefix(r.URL.Path, opening)
		switch {
		case !opens:
			console.ServeHTTP(w, r)
		case r.Method != http.MethodGet || !same(token, l.token) || l.opened.Swap(true):
			http.Error(w, "This link was already opened, or is not valid. Run dedup console again.", http.StatusForbidden)
		default:
			http.SetCookie(w, &http.Cookie{Name: l.cookieName, Value: l.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Referrer-Policy", "no-referrer")
			http.Redirect(w, r, "/", http.StatusSeeOther)
		}
	})
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
