package redisstore

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store/storetest"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

func TestOrderedExercise(t *testing.T) {
	address := redistest.Start(t).Addr()
	storetest.ExerciseLive(t, func(t *testing.T) storetest.Place {
		client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
		t.Cleanup(func() { client.Close() })
		flush := func(t *testing.T) {
			t.Helper()
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		flush(t)
		s, err := New(t.Context(), client, Options{Prefix: "ordered", Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Place{Store: s, Empty: flush, LoseEnd: func(t *testing.T) { loseEnd(t, client) }}
	})
}

// loseEnd drops the last row.
func loseEnd(t *testing.T, client *redis.Client) {
	t.Helper()
	key := "{ordered}:ratelimit:3:log"
	rows, err := client.XRevRangeN(t.Context(), key, "+", "-", 1).Result()
	if err != nil || len(rows) == 0 {
		t.Fatal(err)
	}
	if err := client.XDel(t.Context(), key, rows[0].ID).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Del(t.Context(), "{ordered}:ratelimit:3:end").Err(); err != nil {
		t.Fatal(err)
	}
}
