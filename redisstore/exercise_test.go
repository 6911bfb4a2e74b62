package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store/storetest"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

func TestExercise(t *testing.T) {
	address := redistest.Start(t).Addr()
	places := 0
	storetest.ExerciseLive(t, func(t *testing.T) storetest.Place {
		client := clientOf(t, address)
		places++
		prefix := fmt.Sprintf("exercise %d", places)
		s, err := New(t.Context(), client, Options{Prefix: prefix, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		empty := func(t *testing.T) {
			t.Helper()
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		return storetest.Place{Store: s, Empty: empty, LoseEnd: func(t *testing.T) { loseEnd(t, client, keysOf(prefix, layout, "log", "meta", "end")) }}
	})
}

// loseEnd drops the last row, as a failover may.
func loseEnd(t *testing.T, client *redis.Client, keys []string) {
	t.Helper()
	rows, err := client.XRevRangeN(t.Context(), keys[keyLog], "+", "-", 1).Result()
	if err != nil || len(rows) == 0 {
		t.Fatal(err)
	}
	if err := client.XDel(t.Context(), keys[keyLog], rows[0].ID).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Del(t.Context(), keys[keyEnd]).Err(); err != nil {
		t.Fatal(err)
	}
}
