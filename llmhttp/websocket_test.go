package llmhttp_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Five turns at one request a minute take four minutes, and each is charged what it used.
func TestSocketTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 10_000})
		var log eventLog
		tr := &llmhttp.Transport{Limiter: rl, Margin: -1, OnEvent: log.add}
		client, server := dial(t, tr)
		defer closes(client, server)
		began := time.Now()
		for i := range 5 {
			if i > 0 {
				client.write(t, create("", "next"))
				if got := server.texts(); len(got) > 0 {
					t.Fatalf("turn %d was sent without room: %q", i, got)
				}
				client.write(t, wsBytes(true, 9, true, []byte("still here")))
				if got := server.texts(); len(got) != 1 || got[0] != "still here" {
					t.Fatalf("turn %d: a ping did not pass: %q", i, got)
				}
				time.Sleep(time.Minute - time.Nanosecond)
				if got := server.texts(); len(got) > 0 {
					t.Fatalf("turn %d was sent too soon", i)
				}
				time.Sleep(2 * time.Nanosecond)
			} else {
				client.write(t, create("", "first"))
			}
			if got := server.texts(); len(got) != 1 {
				t.Fatalf("turn %d: the server got %q", i, got)
			}
			server.tell(t, "%s", created("", fmt.Sprint("resp_", i)))
			server.tell(t, "%s", completed("", fmt.Sprint("resp_", i), 100+i, 7))
			if got := client.texts(); len(got) != 2 {
				t.Fatalf("turn %d: the client got %q", i, got)
			}
			if s := rl.Stats("m"); s.RPM != 1 || s.TPM != 107+i || s.InFlight != 0 {
				t.Errorf("turn %d: charged %+v", i, s)
			}
		}
		if took := time.Since(began); took < 4*time.Minute || took > 4*time.Minute+time.Second {
			t.Errorf("five turns took %v", took)
		}
	})
}
