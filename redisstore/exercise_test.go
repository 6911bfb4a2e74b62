package redisstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// exerciseStore is a Store for the suite of all logs.
type exerciseStore struct {
	store *Store
	mu    *sync.Mutex
	logs  map[int64]*Log
}

func newExerciseStore(t *testing.T, client redis.UniversalClient) exerciseStore {
	t.Helper()
	s, err := New(t.Context(), client, Options{Prefix: "exercise", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return exerciseStore{s, new(sync.Mutex), make(map[int64]*Log)}
}

func (s exerciseStore) Open(t *testing.T, process, span int64, ttl time.Duration) sharedlog.Log {
	t.Helper()
	l, err := s.store.OpenLog(t.Context(), sharedlog.Options{
		Process: process, Span: span, LeaseTTL: ttl,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[process] = l.(*Log)
	return current{l.(*Log)}
}

// Kill has a process fall silent, and waits until its lease has ended.
func (s exerciseStore) Kill(process int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[process]
	l.Close()
	time.Sleep(l.options.LeaseTTL * 3 / 2)
	return true
}

// Replace deletes the keys, and waits until all logs have noticed it.
func (s exerciseStore) Replace(t *testing.T) bool {
	if err := s.store.client.Del(t.Context(), s.store.keys...).Err(); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		for began := time.Now(); !l.replaced.Load(); time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				t.Fatal("a log does not notice that it is gone")
			}
		}
	}
	return true
}

func (s exerciseStore) Excludes() bool { return false }

func (s exerciseStore) RenewsLeases() {}

// current is a Log as one on the same machine: it tells what the store has at the moment, and has
// done at once what Log does later.
type current struct{ *Log }

func (c current) Begin(ctx context.Context, seen int64) (sharedlog.Step, error) {
	step, err := c.Log.Begin(ctx, seen)
	if err != nil || seen == sharedlog.Everything {
		return currentStep{c.Log, step}, err
	}
	entries, err := c.look(ctx, seen, false)
	if err != nil {
		return c.Begin(ctx, sharedlog.Everything)
	}
	step.(*optimistic).base, step.(*optimistic).news = seen, sharedlog.News{}
	return currentStep{c.Log, step}, step.(*optimistic).tell(entries)
}

func (c current) Read(ctx context.Context, seen int64) (sharedlog.News, error) {
	if err := c.usable(); err != nil {
		return sharedlog.News{}, err
	}
	entries, err := c.look(ctx, seen, false)
	if err != nil {
		return sharedlog.News{}, err
	}
	return c.news(entries, seen)
}

type currentStep struct {
	log *Log
	sharedlog.Step
}

func (s currentStep) Commit(b *sharedlog.Batch) (int64, error) {
	first, err := s.Step.Commit(b)
	for err == sharedlog.ErrConflict && len(s.News().Events) == 0 { // it is another's turn
		time.Sleep(time.Millisecond)
		first, err = s.Step.Commit(b)
	}
	if err == nil {
		s.log.doChores(context.Background())
	}
	return first, err
}

func TestExercise(t *testing.T) {
	sharedlogtest.Exercise(t, func(t *testing.T) sharedlogtest.Store {
		_, client := testServer(t)
		return newExerciseStore(t, client)
	})
}

func TestExerciseLive(t *testing.T) {
	address := redistest.Start(t).Addr()
	sharedlogtest.ExerciseLive(t, func(t *testing.T) sharedlogtest.Store {
		client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
		t.Cleanup(func() { client.Close() })
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return newExerciseStore(t, client)
	})
}
