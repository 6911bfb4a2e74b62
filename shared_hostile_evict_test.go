//go:build !nosqlite

package ratelimit

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// Who is evicted while it cannot hear that goes to the end of the line, once, and others
// know that it stands there.
func TestSharedEvictedWhileDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	q := withQuota("m", ModelQuota{MaxInFlight: 1})
	a, b := openHostile(t, path, q), openHostile(t, path, q)
	r, d := b.Reserve("m", 1, 1)
	if r == nil {
		t.Fatal(d)
	}
	got := make(chan error, 1)
	go func() {
		r, err := a.Acquire(t.Context(), "m", 1, 1)
		if r != nil {
			r.Cancel()
		}
		got <- err
	}()
	for b.Stats("m").Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	<-a.ledger.writer
	a.ledger.fail(errors.New("made up"))
	b.ledger.do(background, func(p *plan) { p.addNow(&sharedlog.Event{Kind: sharedlog.Evict, Ref: a.ledger.id}) })
	a.ledger.recover(recoverAtOnce)
	a.ledger.writer <- struct{}{}
	if n := a.Stats("m").Waiting; n != 1 {
		t.Errorf("%d wait, as the one knows that waits", n)
	}
	if n := b.Stats("m").Waiting; n != 1 {
		t.Errorf("%d wait, as the other knows", n)
	}
	r.Cancel()
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("is never served")
	}
}
