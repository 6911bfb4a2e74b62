package redisstore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// While a process writes and saves images, each view is of the log at some moment.
func TestView(t *testing.T) {
	t.Parallel()
	address := redistest.Start(t).Addr()
	s, err := New(t.Context(), clientOf(t, address), Options{Prefix: "view", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := s.Open(t.Context(), store.Options{Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	first := store.Image{At: store.Position{Log: 5, Seq: 7}, Bytes: []byte("image 7")}
	if err := opened.Begin(t.Context(), 0, first); err != nil {
		t.Fatal(err)
	}
	const images, rows, batch = 30, 40, 9
	end := first.At.Seq + images*rows*batch
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		at := first.At
		for range images {
			middle := at
			for range rows {
				news, err := opened.Append(t.Context(), at, make([]store.Entry, batch))
				if err != nil {
					t.Error(err)
					return
				}
				at = news.End(at)
				middle = news.Entries[batch/2].At // a place within a row
			}
			image := store.Image{At: middle, Bytes: fmt.Appendf(make([]byte, 0, 3*pieceSize), "image %d", middle.Seq)}
			if err := opened.Save(t.Context(), store.Image{At: image.At, Bytes: image.Bytes[:2*pieceSize]}); err != nil {
				t.Error(err)
			}
		}
	})
	for last := int64(0); last < end && !t.Failed(); {
		view, err := s.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seq := view.Image.At.Seq
		if want := fmt.Sprintf("image %d", seq); string(view.Image.Bytes[:len(want)]) != want {
			t.Errorf("image %.20q, want %q", view.Image.Bytes, want)
		}
		for _, e := range view.Entries {
			if seq++; e.At.Seq != seq || e.At.Log != first.At.Log {
				t.Fatalf("entry %v stands at %d", e.At, seq)
			}
		}
		if n := len(view.Entries); n > 0 && view.Now.Wall < view.Entries[n-1].Stamp.Wall {
			t.Errorf("the moment %v is before that of the last entry", view.Now)
		}
		if seq < last {
			t.Errorf("the log ends at %d, and did at %d", seq, last)
		}
		last = seq
	}
}
