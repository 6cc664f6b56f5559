package gormdedup_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/gormdedup"
)

var errOwn = errors.New("the effect's own")

// ways are the ways to make a call whose effect writes through gorm.
var ways = map[string]func(ctx context.Context, s service, key string, effect func(context.Context, *gorm.DB) (Note, error)) (dedup.Result[Note], error){
	"Effect": func(ctx context.Context, s service, key string, effect func(context.Context, *gorm.DB) (Note, error)) (dedup.Result[Note], error) {
		return dedup.Do(ctx, s.d, call(key), gormdedup.Effect(s.db, effect))
	},
	"Transaction": func(ctx context.Context, s service, key string, effect func(context.Context, *gorm.DB) (Note, error)) (result dedup.Result[Note], err error) {
		err = gormdedup.Transaction(ctx, s.d, s.db, func(tx *gorm.DB) (err error) {
			result, err = gormdedup.DoTx(ctx, s.d, tx, call(key), effect)
			return err
		})
		return result, err
	},
	"DoTx": func(ctx context.Context, s service, key string, effect func(context.Context, *gorm.DB) (Note, error)) (result dedup.Result[Note], err error) {
		var refused *dedup.RefusedError
		err = s.db.WithContext(context.WithoutCancel(ctx)).Transaction(func(tx *gorm.DB) (err error) {
			result, err = gormdedup.DoTx(ctx, s.d, tx, call(key), effect)
			if errors.As(err, &refused) {
				return nil
			}
			return err
		})
		if err == nil && refused != nil {
			err = refused
		}
		return result, err
	},
	"Nested": func(ctx context.Context, s service, key string, effect func(context.Context, *gorm.DB) (Note, error)) (result dedup.Result[Note], err error) {
		_, err = dedup.Do(ctx, s.d, call("around "+key), gormdedup.Effect(s.db, func(ctx context.Context, tx *gorm.DB) (int, error) {
			err := tx.Transaction(func(tx *gorm.DB) (err error) {
				result, err = gormdedup.DoTx(ctx, s.d, tx, call(key), effect)
				return err
			})
			return 0, err
		}))
		return result, err
	},
}

// TestWays makes a call in each way, with gorm's statements prepared and not.
func TestWays(t *testing.T) {
	t.Parallel()
	for name, do := range ways {
		for _, prepare := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/", prepare), func(t *testing.T) {
				t.Parallel()
				s := setup(t, gorm.Config{PrepareStmt: prepare})
				effect := func(ctx context.Context, tx *gorm.DB) (Note, error) {
					note, err := create("first")(ctx, tx)
					require.NoError(t, err)
					require.ErrorIs(t, tx.Transaction(func(tx *gorm.DB) error {
						_, err := create("undone")(ctx, tx)
						require.NoError(t, err)
						return errOwn
					}), errOwn)
					return note, nil
				}
				for _, replayed := range []bool{false, true} {
					result, err := do(s.ctx, s, "k", effect)
					require.NoError(t, err)
					if name != "Nested" || !replayed { // there the outer call is replayed
						require.Equal(t, "first", result.Value.Text)
						require.Equal(t, replayed, result.Replayed)
					}
				}
				require.Equal(t, []string{"first"}, s.notes(t))

				_, err := do(s.ctx, s, "fails", func(ctx context.Context, tx *gorm.DB) (Note, error) {
					_, err := create("lost")(ctx, tx)
					return Note{}, errors.Join(err, errOwn)
				})
				require.ErrorIs(t, err, errOwn)
				if name != "Nested" {
					_, err = do(s.ctx, s, "refused", func(context.Context, *gorm.DB) (Note, error) { return Note{}, dedup.Final(errOwn) })
					require.ErrorIs(t, err, dedup.ErrRefused)
					require.Equal(t, 2, s.records(t))
				}
				require.Equal(t, []string{"first"}, s.notes(t))

				// db is unchanged: its statements use connections of the pool.
				require.NoError(t, s.db.Create(&Note{Text: "beside"}).Error)
				require.Equal(t, []string{"first", "beside"}, s.notes(t))
			})
		}
	}
}

// TestKeepsWhatGormHas passes the conditions, settings and hooks of db to the effect.
func TestKeepsWhatGormHas(t *testing.T) {
	t.Parallel()
	s := setup(t, gorm.Config{})
	require.NoError(t, s.db.Create(&[]Note{{Text: "mine"}, {Text: "other"}}).Error)
	mine := s.db.Where("text = ?", "mine").Session(&gorm.Session{})
	_, err := dedup.Do(s.ctx, s.d, call("k"), gormdedup.Effect(mine.Set("tenant", "acme"), func(ctx context.Context, tx *gorm.DB) (int, error) {
		for range 2 { // a chain adds nothing to the next one
			var notes []Note
			require.NoError(t, tx.Find(&notes).Error)
			require.Len(t, notes, 1)
		}
		tenant, _ := tx.Get("tenant")
		require.Equal(t, "acme", tenant)
		require.Equal(t, ctx, tx.Statement.Context)
		return 0, nil
	}))
	require.NoError(t, err)
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	s := setup(t, gorm.Config{})
	effect := create("k")

	t.Run("AContextThatCanEnd", func(t *testing.T) {
		t.Parallel()
		err := s.db.WithContext(s.ctx).Transaction(func(tx *gorm.DB) error {
			_, err := gormdedup.DoTx(s.ctx, s.d, tx, call("k"), effect)
			return err
		})
		require.ErrorIs(t, err, dedup.ErrInvalid)
		require.ErrorContains(t, err, "context.WithoutCancel")
	})
	t.Run("AnotherContextSince", func(t *testing.T) {
		t.Parallel()
		other, err := gorm.Open(postgres.New(postgres.Config{DSN: s.pool.Config().ConnString()}), &gorm.Config{Logger: logger.Discard})
		require.NoError(t, err)
		defer func() { must(service{db: other}.close()) }()
		for db, known := range map[*gorm.DB]bool{s.db: true, other: false} {
			for _, ends := range []bool{false, true} {
				begun, since := context.WithoutCancel(s.ctx), s.ctx
				if ends {
					begun, since = since, begun
				}
				err := db.WithContext(begun).Transaction(func(tx *gorm.DB) error {
					_, err := gormdedup.DoTx(s.ctx, s.d, tx.WithContext(since), call(fmt.Sprint(known, ends)), create(fmt.Sprint(known, ends)))
					return err
				})
				if ends == known {
					require.ErrorIs(t, err, dedup.ErrInvalid)
					require.ErrorContains(t, err, "context.WithoutCancel")
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, !known && !ends, err != nil && strings.Contains(err.Error(), "sqldedup.OpenDB"))
			}
		}
	})
	t.Run("NoTransaction", func(t *testing.T) {
		t.Parallel()
		for name, tx := range map[string]*gorm.DB{"a database": s.db, "is nil": nil} {
			_, err := gormdedup.DoTx(s.ctx, s.d, tx, call("k"), effect)
			require.ErrorIs(t, err, dedup.ErrInvalid)
			require.ErrorContains(t, err, name)
		}
	})
	t.Run("NoFunction", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, gormdedup.Transaction(s.ctx, s.d, s.db, nil), dedup.ErrInvalid)
		require.ErrorIs(t, gormdedup.Transaction(s.ctx, s.d, s.db, func(tx *gorm.DB) error {
			_, err := gormdedup.DoTx[Note](s.ctx, s.d, tx, call("k"), nil)
			return err
		}), dedup.ErrInvalid)
	})
	t.Run("AnEndInTheEffect", func(t *testing.T) {
		t.Parallel()
		_, err := dedup.Do(s.ctx, s.d, call("ends"), gormdedup.Effect(s.db, func(ctx context.Context, tx *gorm.DB) (Note, error) {
			return Note{}, tx.Commit().Error
		}))
		require.ErrorIs(t, err, dedup.ErrInvalid)
	})
}

// TestRunOfATool calls Effect's result as a tool's Run does.
func TestRunOfATool(t *testing.T) {
	t.Parallel()
	s := setup(t, gorm.Config{})
	run := func(ctx context.Context, tx pgx.Tx, text string) (Note, error) {
		return gormdedup.Effect(s.db, create(text))(ctx, tx)
	}
	_, err := dedup.Do(s.ctx, s.d, call("k"), func(ctx context.Context, tx pgx.Tx) (Note, error) { return run(ctx, tx, "text") })
	require.NoError(t, err)
	require.Equal(t, []string{"text"}, s.notes(t))
}

// TestContextsEnd makes 800 concurrent calls whose contexts end at random times, in each way. There
// are as many rows as records, and the race detector finds nothing.
func TestContextsEnd(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 25
	for name, do := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t, gorm.Config{})
			var at sync.WaitGroup
			for worker := range workers {
				at.Go(func() {
					for n := range each {
						ctx, cancel := context.WithTimeout(s.ctx, rand.N(50*time.Millisecond))
						if n%5 == 0 {
							ctx = s.ctx // so that some succeed on a slow machine
						}
						key := fmt.Sprint(worker, ".", n)
						_, err := do(ctx, s, key, func(ctx context.Context, tx *gorm.DB) (Note, error) {
							note, err := create(key)(ctx, tx)
							if err == nil {
								err = tx.Transaction(func(tx *gorm.DB) error { return tx.Model(&note).Update("text", key+" done").Error })
							}
							return note, err
						})
						if errors.Is(err, dedup.ErrInvalid) || errors.Is(err, dedup.ErrBroken) {
							t.Error(err)
						}
						cancel()
					}
				})
			}
			at.Wait()
			records := s.records(t)
			if name == "Nested" { // each call has one around it
				require.Zero(t, records%2)
				records /= 2
			}
			require.GreaterOrEqual(t, records, workers*each/5)
			require.Len(t, s.notes(t), records)
		})
	}
}

// TestPoolSettings gives gorm the settings of its documentation
// (https://gorm.io/docs/connecting_to_the_database.html#Connection-Pool), on a pool of four
// connections that the Deduper shares. Readers, writers and calls all come to an end.
func TestPoolSettings(t *testing.T) {
	t.Parallel()
	s := setup(t, gorm.Config{})
	db, err := s.db.DB()
	require.NoError(t, err)
	db.SetMaxIdleConns(10)
	db.SetMaxOpenConns(100)
	db.SetConnMaxLifetime(time.Hour)

	var all sync.WaitGroup
	for n := range 3 * s.pool.Config().MaxConns {
		all.Go(func() {
			var notes []Note
			if err := s.db.WithContext(s.ctx).Find(&notes).Error; err != nil {
				t.Error(err)
			}
			if _, err := dedup.Do(s.ctx, s.d, call(fmt.Sprint(n)), gormdedup.Effect(s.db, create(fmt.Sprint(n)))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, s.notes(t), int(3*s.pool.Config().MaxConns))
	require.Zero(t, db.Stats().Idle)
}
