package dedupweb_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/dedupweb"
)

// The console behind the application's own log-in, which returns the visitor's rights.
func ExampleNew() {
	pool, err := pgxpool.New(context.Background(), "postgres://app@localhost/shop")
	must(err)
	defer pool.Close()
	d, err := dedup.New(pool, nil)
	must(err)

	console, err := dedupweb.New(d, dedupweb.Options{Access: func(r *http.Request) dedupweb.Access {
		user, password, _ := r.BasicAuth() // or the application's session
		if user != "ada" || password != "sesame" {
			return dedupweb.Access{} // no access
		}
		return dedupweb.Access{Name: user, Keys: true, Act: true}
	}})
	must(err)
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console", console))

	for _, password := range []string{"guessed", "sesame"} {
		r := httptest.NewRequest("GET", "/console/inflight", nil)
		r.SetBasicAuth("ada", password)
		page := httptest.NewRecorder()
		mux.ServeHTTP(page, r)
		fmt.Println(page.Code)
	}

	// Output:
	// 403
	// 200
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
