package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// A process that others have beaten twice gets a turn, in which nobody else decides. Those that
// decide nothing write beside it.
func TestTurns(t *testing.T) {
	_, client := testServer(t)
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	b, _ := joined(t, s, 2)
	beaten := begin(t, b, 0)
	for n := range int64(2) {
		commit(t, a, n, batchOf(use(1, n+1)))
		if _, err := beaten.Commit(batchOf(use(2, 1))); !errors.Is(err, sharedlog.ErrConflict) {
			t.Fatalf("conflict %d: %v", n, err)
		}
	}
	appended := batchOf(use(1, 3))
	appended.Appends, appended.Added = true, make([]sharedlog.DayAdded, 1)
	if first, _ := commit(t, a, 2, appended); first != 3 {
		t.Errorf("what decides nothing gets the place %d in another's turn", first)
	}
	if _, err := beaten.Commit(batchOf(use(2, 1))); !errors.Is(err, sharedlog.ErrConflict) || len(beaten.News().Events) != 1 {
		t.Errorf("behind that: %v, %+v", err, beaten.News())
	}
	if first, err := beaten.Commit(batchOf(use(2, 1))); first != 4 || err != nil {
		t.Errorf("in its turn: %d, %v", first, err)
	}
}

// In another's turn a process waits until that is over.
func TestTurnsExclude(t *testing.T) {
	server, client := testServer(t)
	server.SetTime(time.Now()) // so that no turn ends by itself
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	b, _ := joined(t, s, 2)
	beaten := begin(t, b, 0)
	for n := range int64(2) {
		commit(t, a, n, batchOf(use(1, n+1)))
		if _, err := beaten.Commit(batchOf(use(2, 1))); !errors.Is(err, sharedlog.ErrConflict) {
			t.Fatalf("conflict %d: %v", n, err)
		}
	}
	other := begin(t, a, 2)
	over := make(chan error)
	go func() {
		_, err := other.Commit(batchOf(use(1, 3)))
		over <- err
	}()
	select {
	case err := <-over:
		t.Fatalf("in another's turn: %v", err)
	case <-time.After(5 * quiet):
	}
	if first, err := beaten.Commit(batchOf(use(2, 1))); first != 3 || err != nil {
		t.Errorf("in its turn: %d, %v", first, err)
	}
	if err := <-over; !errors.Is(err, sharedlog.ErrConflict) || len(other.News().Events) != 1 {
		t.Errorf("after the turn: %v, %+v", err, other.News())
	}
	if first, err := other.Commit(batchOf(use(1, 3))); first != 4 || err != nil {
		t.Errorf("in the next turn: %d, %v", first, err)
	}
}

// A process that is in line and has nothing to decide any more lets the others go on.
func TestTurnsOfThoseWhoLeave(t *testing.T) {
	server, client := testServer(t)
	server.SetTime(time.Now()) // so that no turn ends by itself
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	b, _ := joined(t, s, 2)
	beaten := begin(t, b, 0)
	for n := range int64(2) {
		commit(t, a, n, batchOf(use(1, n+1)))
		if _, err := beaten.Commit(batchOf(use(2, 1))); !errors.Is(err, sharedlog.ErrConflict) {
			t.Fatalf("conflict %d: %v", n, err)
		}
	}
	beaten.Rollback()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	step := begin(t, a, 2)
	for ctx.Err() == nil {
		if _, err := step.Commit(batchOf(use(1, 3))); err == nil {
			return
		} else if !errors.Is(err, sharedlog.ErrConflict) {
			t.Fatal(err)
		}
	}
	t.Error("the turn does not end")
}
