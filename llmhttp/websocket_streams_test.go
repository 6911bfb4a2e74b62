package llmhttp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// twoModels is a limiter with one request a minute for "m", and many for "n".
func twoModels(t testing.TB) *ratelimit.RateLimiter {
	t.Helper()
	return newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
		"m": {MaxRPM: 1}, "n": {MaxRPM: 1000},
	}})
}

// A create that waits holds back the later messages of its stream, and nothing else.
func TestSocketStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := twoModels(t)
		var log eventLog
		client, server := dial(t, &llmhttp.Transport{Limiter: rl, Margin: -1, OnEvent: log.add})
		defer closes(client, server)
		send := func(message string) { t.Helper(); client.write(t, text(message)) }
		expect := func(what string, want ...string) {
			t.Helper()
			got := server.texts()
			for i, message := range got {
				var fields struct{ Name string }
				if json.Unmarshal([]byte(message), &fields) == nil && fields.Name != "" {
					got[i] = fields.Name
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: the server got %q, want %q", what, got, want)
			}
		}
		send(`{"type":"response.create","model":"m","stream_id":"a","name":"a1"}`)
		expect("there is room", "a1")
		server.tell(t, "%s", created("a", "resp_a1"))
		send(`{"type":"response.create","model":"m","stream_id":"a","name":"a2"}`)
		send(`{"type":"response.create","model":"n","stream_id":"a","name":"a3"}`)
		send(`{"type":"response.cancel","stream_id":"a","name":"a4"}`)
		expect("there is none, so the stream waits")
		send(`{"type":"response.create","model":"n","stream_id":"b","name":"b1"}`)
		send(`{"type":"response.create","model":"n","name":"default"}`)
		send(`{"type":"response.cancel","stream_id":"b","name":"b2"}`)
		expect("other streams pass", "b1", "default", "b2")
		send(`{"type":"response.create","model":"m","name":"held"}`)
		send(`{"type":"response.steer","previous_response_id":"resp_a1","name":"steer"}`)
		expect("the default stream waits, but what is about a response that has begun passes", "steer")
		client.write(t, wsBytes(true, 9, true, []byte("p")))
		expect("a ping passes", "p")
		send(`{"type":"response.create","model":"m","stream_id":"c","name":"c1"}`)
		send(`{"type":"response.create","model":"n","stream_id":"c","name":"c2"}`)
		expect("a second stream waits")
		server.tell(t, "%s", completed("b", "resp_b1", 10, 20))
		server.tell(t, "%s", completed("", "resp_d", 100, 200))
		if client.got(); rl.Stats("n").TPM != 330 {
			t.Errorf("while streams wait, others are settled: %+v", rl.Stats("n"))
		}
		time.Sleep(time.Minute + time.Nanosecond)
		expect("the first stream goes on, in its order", "a2", "a3", "a4")
		time.Sleep(time.Minute + time.Nanosecond)
		expect("then the second one", "held")
		time.Sleep(time.Minute + time.Nanosecond)
		expect("then the third one", "c1", "c2")
		server.tell(t, "%s", completed("", "resp_held", 7, 8))
		for i, id := range []string{"a1", "a2", "a3"} {
			server.tell(t, "%s", completed("a", "resp_"+id, 1, i))
		}
		server.tell(t, "%s", completed("c", "resp_c1", 7, 8))
		server.tell(t, "%s", completed("c", "resp_c2", 9, 10))
		client.got()
		checkSocketEvents(t, &log, 8)
		var waited []time.Duration
		for _, e := range log.of(llmhttp.EventAdmitted) {
			if e.Requested == "n" {
				waited = append(waited, e.Wait.Round(time.Second))
			}
		}
		if !slices.Equal(waited, []time.Duration{0, 0, time.Minute, 3 * time.Minute}) {
			t.Errorf("the calls that had room waited %v for those before them", waited)
		}
		if rl.Stats("m").InFlight+rl.Stats("n").InFlight != 0 {
			t.Error("calls are open")
		}
	})
}

// checkSocketEvents checks that each of n calls was admitted, answered and settled once, by the
// usage that its response reported, under an ID of its own.
func checkSocketEvents(t *testing.T, log *eventLog, n int) {
	t.Helper()
	byID := make(map[uint64][]llmhttp.EventKind)
	for _, e := range log.events {
		byID[e.ID] = append(byID[e.ID], e.Kind)
		if e.Adapter != "openai" || e.Operation != "responses" || e.Requested == "" || !e.Stream || e.Context == nil {
			t.Errorf("event %+v", e)
		}
		if e.Kind == llmhttp.EventSettled && (e.Source != llmhttp.SourceReported || e.Status != 200) {
			t.Errorf("settled by %s, status %d", e.Source, e.Status)
		}
	}
	want := []llmhttp.EventKind{llmhttp.EventAdmitted, llmhttp.EventAnswered, llmhttp.EventSettled}
	for id, kinds := range byID {
		if id == 0 || !slices.Equal(kinds, want) {
			t.Errorf("call %d: %q", id, kinds)
		}
	}
	if len(byID) != n {
		t.Errorf("%d calls, want %d", len(byID), n)
	}
}

// errorOf returns the error event that a frame contains.
type errorOf struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Stream string `json:"stream_id"`
	Error  struct{ Type, Code, Message string }
}

// A refused create is not sent. In its place the client gets an error event in the provider's
// shape, between the server's messages.
func TestSocketRefusal(t *testing.T) {
	for _, stream := range []string{"", "main-1_a.b"} {
		synctest.Test(t, func(t *testing.T) {
			rl := twoModels(t)
			var log eventLog
			client, server := dial(t, &llmhttp.Transport{Limiter: rl, MaxWait: time.Second, OnEvent: log.add})
			defer closes(client, server)
			client.write(t, create(stream, "first"))
			server.got()
			answer := []byte(created(stream, "resp_1"))
			server.write(t, wsBytes(false, 1, false, answer[:7]))
			client.write(t, create(stream, "refused"))
			client.write(t, text(fmt.Sprintf(`{"type":"response.create",%s"model":"n"}`, on(stream))))
			time.Sleep(time.Second)
			if got := server.texts(); len(got) != 1 || !strings.Contains(got[0], `"n"`) {
				t.Errorf("the server got %q", got)
			}
			if got := client.got(); len(got) != 1 || got[0].final {
				t.Errorf("within a message the client got %+v", got)
			}
			server.write(t, wsBytes(true, 9, false, nil))
			server.write(t, wsBytes(true, 0, false, answer[7:]))
			got := client.got()
			if len(got) != 3 || got[0].code != 9 || string(got[1].payload) != string(answer[7:]) {
				t.Fatalf("the client got %+v", got)
			}
			var e errorOf
			if err := json.Unmarshal(got[2].payload, &e); err != nil {
				t.Fatal(err)
			}
			if f := got[2]; !f.final || f.code != 1 || f.masked || e.Type != "error" || e.Status != 429 || e.Stream != stream ||
				e.Error.Code != "rate_limit_exceeded" || !strings.Contains(e.Error.Message, `not sent (rpm_exceeded, max_wait): model "m"`) {
				t.Errorf("the client got %s", f.payload)
			}
			refused := log.of(llmhttp.EventRefused)
			if len(refused) != 1 || !errors.Is(refused[0].Err, ratelimit.ErrMaxWait) || refused[0].ID == 0 {
				t.Errorf("refused: %+v", refused)
			}
			if m, n := rl.Stats("m"), rl.Stats("n"); m.RPM != 1 || n.RPM != 1 {
				t.Errorf("charged %+v, %+v", m, n)
			}
		})
	}
}

// However a connection ends, its open calls are settled at what was seen of them, at no less than
// the estimate, and those that wait are not charged.
func TestSocketEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, client, server *wsPeer){
		"the client closes the body": func(t *testing.T, client, server *wsPeer) { client.Close() },
		"the server hangs up":        func(t *testing.T, client, server *wsPeer) { server.Close() },
		"the server sends a close frame": func(t *testing.T, client, server *wsPeer) {
			server.write(t, wsBytes(true, 8, false, []byte("\x03\xE8")))
			synctest.Wait()
			client.write(t, wsBytes(true, 8, true, []byte("\x03\xE8"))) // the client answers it
			if _, err := client.Write(create("", "late")); err == nil {
				t.Error("a call was taken after the end")
			}
		},
		"the client sends one, and the server hangs up late": func(t *testing.T, client, server *wsPeer) {
			client.write(t, wsBytes(true, 8, true, []byte("\x03\xE8")))
			time.Sleep(2 * time.Minute)
			for _, message := range server.texts() {
				if strings.Contains(message, "waits") {
					t.Errorf("the server got %s", message)
				}
			}
			server.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 3})
				var log eventLog
				tr := &llmhttp.Transport{Limiter: rl, OnEvent: log.add, Estimate: func(*llmhttp.Call) (int, int) { return 100, 50 }}
				client, server := dial(t, tr)
				defer closes(client, server)
				for _, stream := range []string{"sent", "begun", "long", "waits", "waits"} {
					client.write(t, create(stream, "hello"))
				}
				if got := server.texts(); len(got) != 3 {
					t.Fatalf("the server got %q", got)
				}
				for stream, n := range map[string]int{"begun": 40, "long": 4000} {
					server.tell(t, "%s", created(stream, "resp_"+stream))
					server.tell(t, `{"type":"response.output_text.delta",%s"delta":%q}`, on(stream), strings.Repeat("x", n))
				}
				synctest.Wait()
				end(t, client, server)
				synctest.Wait()
				if s := rl.Stats("m"); s.RPD != 3 || s.TPD != 150+150+1100 || s.InFlight != 0 {
					t.Errorf("charged %+v", s)
				}
				refused := log.of(llmhttp.EventRefused)
				if settled := log.of(llmhttp.EventSettled); len(settled) != 3 || len(refused) != 2 {
					t.Errorf("%d settled, %d refused", len(settled), len(refused))
				}
				for _, e := range refused {
					if e.Err == nil || e.Charged != (ratelimit.Usage{}) {
						t.Errorf("refused: %+v", e)
					}
				}
				time.Sleep(10 * time.Minute)
				if got := server.texts(); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "waits") }) {
					t.Errorf("what waited was sent: %q", got)
				}
			})
		})
	}
}
