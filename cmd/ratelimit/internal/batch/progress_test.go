package batch

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// Each form is written as often as it says, and for the last time at the end.
func TestShow(t *testing.T) {
	for _, test := range []struct {
		form  Form
		lines int // within 30 seconds
	}{{Live, 1}, {Plain, 4}, {JSON, 31}, {None, 0}} {
		t.Run(string(test.form), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				s := Status{Lines: 1000, Done: 999, Seconds: 90, Requests: 5, MaxRequest: 10, Dollars: 1, DollarsEnd: 2}
				stop := Show(&out, test.form, func() Status { return s })
				time.Sleep(29*time.Second + 500*time.Millisecond)
				synctest.Wait()
				s = Status{Lines: 1000, Done: 1000}
				stop()
				text := out.String()
				if got := strings.Count(text, "\n"); got != test.lines {
					t.Errorf("%d lines in %q", got, text)
				}
				switch test.form {
				case Live:
					if !strings.HasPrefix(text, "\r999 of 1000 done, 0 in flight, 1m30s left | 5/10 rpm | 0 tpm | $1.0000, $2.0000 at the end\r") {
						t.Errorf("%q", text[:200])
					}
					last := text[strings.LastIndexByte(text, '\r'):]
					if !strings.HasPrefix(last, "\r1000 of 1000 done") || len(last) < 60 {
						t.Errorf("the last one does not cover the one before: %q", last)
					}
				case JSON:
					for line := range strings.Lines(text) {
						if !json.Valid([]byte(line)) {
							t.Error(line)
						}
					}
				}
			})
		})
	}
}

// A line is cut to the width of a terminal, if there is one.
func TestCut(t *testing.T) {
	for _, test := range []struct {
		n    int
		want string
	}{{-1, "abcd"}, {0, "abcd"}, {3, "abc"}, {4, "abcd"}, {9, "abcd"}} {
		if got := cut("abcd", test.n); got != test.want {
			t.Errorf("%d: %q", test.n, got)
		}
	}
}

// The status tells the use of the limits, and the time that they leave.
func TestStatus(t *testing.T) {
	inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) {
		time.Sleep(10 * time.Second)
		answer(w)
	}}, func(b *bench) {
		b.config.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxRPM: 10, MaxTPM: 100_000}}
		b.prepare(linesOf(40), func(batch *Batch) {
			ended := make(chan Summary)
			go func() {
				s, err := batch.Run(b.t.Context())
				if err != nil {
					t.Error(err)
				}
				ended <- s
			}()
			time.Sleep(5 * time.Second)
			if s := batch.Status(); s.Lines != 40 || s.Done != 0 || s.InFlight != 10 || s.Requests != 10 || s.MaxRequest != 10 || s.MaxTokens != 100_000 || s.Seconds != 240 {
				t.Errorf("%+v", s)
			}
			time.Sleep(30 * time.Second)
			if s := batch.Status(); s.Done != 10 || s.InFlight != 0 || s.Tokens != 300 || s.Seconds != 180 || s.Dollars != 0.00225 || s.DollarsEnd != 0.009 {
				t.Errorf("%+v", s)
			}
			<-ended
			if s := batch.Status(); s.Done != 40 || s.InFlight != 0 || s.Seconds != 0 || s.Dollars != 0.009 {
				t.Errorf("%+v", s)
			}
		})
	})
}
