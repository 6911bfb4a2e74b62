package llmhttp_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// wsError is an error event of the server, with fields in front of its error.
func wsError(stream, fields, code, kind string) string {
	return fmt.Sprintf(`{"type":"error",%s%s"error":{"type":%q,"code":%q,"message":"no","param":null}}`, on(stream), fields, kind, code)
}

// Each way in which a response may end settles its call. The estimate is 100 and 50 tokens.
func TestSocketAnswers(t *testing.T) {
	delta := func(n int) string {
		return fmt.Sprintf(`{"type":"response.output_text.delta","stream_id":"s","item_id":"i","delta":%q}`, strings.Repeat("x", n))
	}
	const usage = `{"input_tokens":7,"input_tokens_details":{"cached_tokens":2},"output_tokens":5}`
	for _, test := range []struct {
		name    string
		events  []string
		used    int // tokens
		source  llmhttp.Source
		problem llmhttp.ProblemKind // zero for none
		pauses  bool
	}{
		{"completed", []string{created("s", "r"), delta(4), ended("completed", "s", "r", usage)}, 12, llmhttp.SourceReported, 0, false},
		{"incomplete", []string{created("s", "r"), ended("incomplete", "s", "r", usage)}, 12, llmhttp.SourceReported, 0, false},
		{"failed", []string{created("s", "r"), ended("failed", "s", "r", usage)}, 12, llmhttp.SourceReported, 0, false},
		{"failed without usage", []string{created("s", "r"), delta(400), ended("failed", "s", "r", "null")}, 200, llmhttp.SourceText, 0, false},
		{"failed at once", []string{ended("failed", "s", "r", "null")}, 150, llmhttp.SourceEstimate, 0, false},
		{"failed for a limit", []string{created("s", "r"), `{"type":"response.failed","stream_id":"s","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"no"},"usage":null}}`},
			150, llmhttp.SourceEstimate, llmhttp.RateLimited, true},
		{"the end alone", []string{ended("completed", "s", "r", usage)}, 12, llmhttp.SourceReported, 0, false},
		{"queued at first", []string{`{"type":"response.queued","stream_id":"s","response":{"id":"r","status":"queued"}}`, created("s", "r"), ended("completed", "s", "r", usage)},
			12, llmhttp.SourceReported, 0, false},
		{"usage that cannot be", []string{ended("completed", "s", "r", `{"input_tokens":-1,"output_tokens":5}`)}, 150, llmhttp.SourceEstimate, 0, false},
		{"refused for a limit", []string{wsError("s", `"status":429,`, "rate_limit_exceeded", "tokens")}, 0, llmhttp.SourceRefused, llmhttp.RateLimited, true},
		{"and with a header", []string{`{"type":"error","status":429,"stream_id":"s","error":{"code":"rate_limit_exceeded","headers":{"retry-after":"20"}}}`},
			0, llmhttp.SourceRefused, llmhttp.RateLimited, true},
		{"refused without a status", []string{wsError("s", "", "rate_limit_exceeded", "tokens")}, 0, llmhttp.SourceRefused, llmhttp.RateLimited, true},
		{"refused for money", []string{wsError("s", `"status":429,`, "insufficient_quota", "insufficient_quota")}, 0, llmhttp.SourceRefused, llmhttp.Exhausted, false},
		{"refused for the organization's usage", []string{wsError("s", "", "organization_usage_limit_exceeded", "tokens")}, 0, llmhttp.SourceRefused, llmhttp.Exhausted, false},
		{"failed for the organization's usage", []string{created("s", "r"), `{"type":"response.failed","stream_id":"s","response":{"id":"r","status":"failed","error":{"code":"organization_usage_limit_exceeded","message":"no"},"usage":null}}`},
			150, llmhttp.SourceEstimate, llmhttp.Exhausted, false},
		{"refused for overload", []string{wsError("s", `"status":503,`, "server_is_overloaded", "server_error")}, 0, llmhttp.SourceRefused, llmhttp.Overloaded, true},
		{"rejected", []string{wsError("s", `"status":400,`, "previous_response_not_found", "invalid_request_error")}, 0, llmhttp.SourceRefused, llmhttp.Rejected, false},
		{"rejected without a status", []string{wsError("s", ``, "previous_response_not_found", "invalid_request_error")}, 0, llmhttp.SourceRefused, llmhttp.Rejected, false},
		{"a failure of the server", []string{wsError("s", `"status":500,`, "server_error", "server_error")}, 150, llmhttp.SourceEstimate, llmhttp.Failed, false},
		{"an error within the response", []string{created("s", "r"), delta(400), wsError("s", `"sequence_number":3,`, "server_error", "server_error"), ended("failed", "s", "r", "null")},
			200, llmhttp.SourceEstimate, llmhttp.Failed, false},
		{"overload within the response", []string{created("s", "r"), wsError("s", `"status":503,`, "server_is_overloaded", "")}, 150, llmhttp.SourceEstimate, llmhttp.Overloaded, true},
		{"an error about something else", []string{created("s", "r"), wsError("s", `"status":400,`, "unknown_event", ""), wsError("", `"status":400,`, "invalid_json", ""), ended("completed", "s", "r", usage)},
			12, llmhttp.SourceReported, 0, false},
		{"events of no response", []string{`{"type":"codex.rate_limits"}`, `[]`, `no JSON`, ``, created("s", "r"), delta(3), `{"type":"response.output_item.done","stream_id":"s","item":{"type":"response.completed","id":"x"}}`,
			ended("completed", "s", "r", usage)}, 12, llmhttp.SourceReported, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
				var log eventLog
				tr := &llmhttp.Transport{Limiter: rl, OnEvent: log.add, Estimate: func(*llmhttp.Call) (int, int) { return 100, 50 }}
				client, server := dial(t, tr)
				defer closes(client, server)
				client.write(t, create("s", "hello"))
				server.got()
				for _, event := range test.events {
					server.tell(t, "%s", event)
				}
				if got := client.texts(); len(got) != len(test.events) {
					t.Errorf("the client got %q", got)
				}
				s, settled := rl.Stats("m"), log.of(llmhttp.EventSettled)
				if s.RPM != 1 || s.TPM != test.used || s.InFlight != 0 || len(settled) != 1 || settled[0].Source != test.source {
					t.Errorf("charged %+v, settled %+v", s, settled)
				}
				problems := log.of(llmhttp.EventProblem)
				if test.problem == 0 != (len(problems) == 0) || len(problems) > 0 && problems[0].Problem.Kind != test.problem {
					t.Errorf("problems: %+v", problems)
				}
				if pauses := s.CooldownUntil.After(time.Now()); pauses != test.pauses {
					t.Errorf("paused: %t", pauses)
				}
			})
		})
	}
}

// A stream_id that the server refuses is settled by its error, which names no stream.
func TestSocketInvalidStream(t *testing.T) {
	for _, id := range []string{`""`, `"a b"`, `"` + strings.Repeat("x", 257) + `"`, `7`, `"a:b"`, `"\u00e9"`} {
		synctest.Test(t, func(t *testing.T) {
			rl := twoModels(t)
			client, server := dial(t, &llmhttp.Transport{Limiter: rl})
			defer closes(client, server)
			client.write(t, create("", "hello"))
			client.write(t, text(`{"type":"response.create","model":"n","stream_id":`+id+`}`))
			if got := server.got(); len(got) != 2 {
				t.Fatalf("%s: the server got %d messages", id, len(got))
			}
			server.tell(t, `{"type":"error","status":400,"error":{"code":"invalid_stream_id","param":"stream_id"}}`)
			client.got()
			if m, n := rl.Stats("m"), rl.Stats("n"); m.InFlight != 1 || n.InFlight != 0 || n.RPM != 1 || n.TPM != 0 {
				t.Errorf("%s: %+v, %+v", id, m, n)
			}
			server.tell(t, "%s", completed("", "r", 3, 4))
			client.got()
			if s := rl.Stats("m"); s.RPM != 1 || s.TPM != 7 || s.InFlight != 0 {
				t.Errorf("%s: %+v", id, s)
			}
		})
	}
}

// A response that the server begins by itself after response.steer is charged, room or not.
func TestSocketSuccessor(t *testing.T) {
	for _, limit := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: limit})
			client, server := dial(t, &llmhttp.Transport{Limiter: rl})
			defer closes(client, server)
			client.write(t, create("s", "hello"))
			server.tell(t, "%s", created("s", "resp_1"))
			client.write(t, text(`{"type":"response.steer","previous_response_id":"resp_1","input":"no, stop"}`))
			if got := server.got(); len(got) != 2 {
				t.Fatalf("the server got %d messages", len(got))
			}
			server.tell(t, "%s", ended("incomplete", "s", "resp_1", `{"input_tokens":10,"output_tokens":1}`))
			server.tell(t, "%s", created("s", "resp_2"))
			server.tell(t, "%s", completed("s", "resp_2", 20, 2))
			server.tell(t, "%s", completed("s", "resp_2", 20, 2)) // once is enough
			client.got()
			if s := rl.Stats("m"); s.RPM != 2 || s.TPM != 33 || s.InFlight != 0 {
				t.Errorf("MaxRPM %d: charged %+v", limit, s)
			}
		})
	}
}

// A call that continues a response is estimated with its tokens, and does not teach the estimate
// of a text.
func TestSocketContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 100})
		var log eventLog
		client, server := dial(t, &llmhttp.Transport{Limiter: rl, OnEvent: log.add})
		defer closes(client, server)
		for i := range 5 {
			client.write(t, text(fmt.Sprintf(`{"type":"response.create","model":"m","input":"hello","previous_response_id":"resp_%d"}`, i-1)))
			server.tell(t, "%s", completed("", fmt.Sprintf("resp_%d", i), 1000*i+20, 100))
			client.got()
			before := 0
			if i > 0 {
				before = 1000*(i-1) + 20 + 100
			}
			got := log.of(llmhttp.EventAdmitted)[i].Estimated.PromptTokens
			if got < before+10 || got > before+40 {
				t.Errorf("turn %d is estimated at %d tokens, %d of them before", i, got, before)
			}
		}
		if got := rl.Estimate("m").Correct(100); got != 100 {
			t.Errorf("100 tokens of a text are estimated at %d", got)
		}
	})
}

// Without a model a create takes that of the one before, and is not counted where there is none.
// Of a type that is not found the server may find more.
func TestSocketModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 100}}})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		for _, message := range []string{
			`{"type":"response.create","input":"of no model"}`,
			`{"type":"response.create","model":"m"}`,
			`{"type":"response.create","stream_id":"a","model":"n"}`,
			`{"type":"response.create","stream_id":"a"}`,
			`{"type":"response.create"}`,
			`{"type":"response.create","stream_id":"b"}`, // of the connection's last one
			`{"\u0074ype":"response.create","model":"escaped"}`,
			`{"type":"response.create","type":"other","model":"twice"}`,
			`{"type":"response.cancel","model":"other"}`,
		} {
			client.write(t, text(message))
		}
		client.write(t, wsBytes(true, 2, true, []byte(`{"type":"response.create","model":"binary"}`)))
		if got := server.got(); len(got) != 10 {
			t.Errorf("the server got %d messages", len(got))
		}
		for model, want := range map[string]int{"m": 3, "n": 2, "escaped": 1, "twice": 1, "binary": 1, "other": 0} {
			if got := rl.Stats(model).RPM; got != want {
				t.Errorf("%s: %d requests, want %d", model, got, want)
			}
		}
	})
}

// A charge leaves the window a minute after the response began, which may be long after the call
// was sent: calls of a lane follow each other.
func TestSocketDating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		client, server := dial(t, &llmhttp.Transport{Limiter: rl})
		defer closes(client, server)
		began := time.Now()
		client.write(t, create("", "hello"))
		time.Sleep(20 * time.Second)
		if got := time.Since(began) + freeIn(rl); got != time.Minute+250*time.Millisecond+1 {
			t.Errorf("before the answer there is room after %v", got)
		}
		server.tell(t, "%s", created("", "r"))
		client.got()
		if got := freeIn(rl); got != time.Minute+1 {
			t.Errorf("there is room after %v more", got)
		}
	})
}
