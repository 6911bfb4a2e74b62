// Programs of the commits before, at a store of this version.

package redisstore

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/test/formertest"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// beforeLog is the last commit of the layout before.
const beforeLog = "0445c7e8ab0379e8e68034053fc24766851f5329"

var formerCommits = map[string]string{
	"found": formertest.BeforeFound, "pools": formertest.BeforePools, "the log": beforeLog,
}

// refusal is in what a program of the layout before is told.
const refusal = "the store is of a later version of go-ratelimit"

// A program of the layout before does not open a store of this one: it would count apart.
func TestFormerProgramIsRefused(t *testing.T) {
	source, err := os.ReadFile("testdata/former/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, commit := range formerCommits {
		t.Run("before "+name, func(t *testing.T) {
			t.Parallel()
			program := formertest.Build(t, commit, "redisstore", string(source))
			server := redistest.Start(t)
			client := clientOf(t, server.Addr())
			l := begun(t, client, Options{}, time.Hour)
			for range 2 { // the first leaves nothing behind that lets the second in
				if _, said := formertest.Start(t, program, server.Addr(), "test"); !strings.Contains(said.Error, refusal) {
					t.Fatalf("opened: %+v", said)
				}
			}
			for _, evicted := range formerNames { // what was evicted, the next limiter puts there again
				client.Del(t.Context(), l.(*Log).formerKey(evicted))
				opened, err := l.(*Log).store.Open(t.Context(), store.Options{Process: 3, Keep: time.Hour})
				if err != nil {
					t.Fatalf("without %s: %v", evicted, err)
				}
				opened.Close()
				if _, said := formertest.Start(t, program, server.Addr(), "test"); !strings.Contains(said.Error, refusal) {
					t.Errorf("opened without %s: %+v", evicted, said)
				}
			}
			if _, err := l.Append(t.Context(), start.At, oneEntry(1)); err != nil {
				t.Error(err)
			}

			// One that was taken for gone, and has its log open, fails with its next step.
			former, said := formertest.Start(t, program, server.Addr(), "other")
			if said.Error != "" {
				t.Fatal(said)
			}
			if said := former.Do("reserve"); !said.Allowed || said.Error != "" {
				t.Fatalf("reserve: %+v", said)
			}
			s, err := New(t.Context(), client, Options{Prefix: "other", Timeout: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			over := newLog(s, store.Options{Process: 2})
			head := client.HGet(t.Context(), over.formerKey("meta"), "head").Val()
			if err := over.show(t.Context(), start, over.former, "0", head+"0"); err == nil {
				t.Error("a log begins with an image of what was before")
			}
			if err := over.show(t.Context(), start, over.former, "0", head); !errors.Is(err, store.ErrLost) {
				t.Errorf("a log begins within the lease of one of before: error %v", err)
			}
			if err := client.Del(t.Context(), over.formerKey("procs")).Err(); err != nil {
				t.Fatal(err)
			}
			if err := over.show(t.Context(), start, over.former, "0", head); err != nil {
				t.Fatal(err)
			}
			former.Do("reserve")
			redistest.Eventually(t, "the program of before fails", func() bool {
				return strings.Contains(former.Do("state").Error, refusal)
			})
			if said := former.Do("reserve"); !strings.Contains(said.Error, refusal) {
				t.Errorf("another step: %+v", said)
			}
		})
	}
}
