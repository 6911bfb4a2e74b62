package apicall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// replyingTo answers every request with status and body, and notes what was asked.
func replyingTo(asked *http.Request, sent *string, status int, reply string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		*asked = *r
		body, _ := io.ReadAll(r.Body)
		*sent = string(body)
		return &http.Response{
			StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(reply)), Request: r,
		}, nil
	}
}

func TestRequestAsks(t *testing.T) {
	const tool = `{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}`
	const flatTool = `{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true}`
	for _, c := range []struct {
		name, address, body string
		wantAddress, want   string // the body as JSON
		reply               string
	}{
		{
			name: "a response", address: "https://api.openai.com/v1/responses",
			body: `{"model":"gpt-5","input":[{"role":"user","content":"hi"}],"instructions":"be","max_output_tokens":9,"stream":true,` +
				`"store":false,"tools":[` + flatTool + `],"reasoning":{"effort":"low"},"text":null,"metadata":{"a":"b"}}`,
			wantAddress: "https://api.openai.com/v1/responses/input_tokens",
			want: `{"model":"gpt-5","input":[{"role":"user","content":"hi"}],"instructions":"be","tools":[` + flatTool +
				`],"reasoning":{"effort":"low"}}`,
		}, {
			name: "a chat completion", address: "https://api.openai.com/v1/chat/completions?x=y",
			body: `{"model":"gpt-5","messages":[{"role":"system","content":"be"},{"role":"user","name":"u","content":"hi"}],` +
				`"max_completion_tokens":9,"stream":true,"stream_options":{"include_usage":true},"temperature":1}`,
			wantAddress: "https://api.openai.com/v1/responses/input_tokens?x=y",
			want:        `{"model":"gpt-5","input":[{"role":"system","content":"be"},{"role":"user","content":"hi"}]}`,
		}, {
			name: "a chat completion with parts", address: "https://proxy.example/openai/v1/chat/completions",
			body: `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"look"},` +
				`{"type":"image_url","image_url":{"url":"data:x","detail":"low"}},{"type":"image_url","image_url":{"url":"http://i"}},` +
				`{"type":"file","file":{"file_id":"f1"}}]},{"role":"assistant","content":[{"type":"text","text":"yes"},` +
				`{"type":"refusal","refusal":"no"}]},{"role":"assistant","refusal":"never"}],"reasoning_effort":"low"}`,
			wantAddress: "https://proxy.example/openai/v1/responses/input_tokens",
			want: `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"look"},` +
				`{"type":"input_image","image_url":"data:x","detail":"low"},{"type":"input_image","image_url":"http://i"},` +
				`{"type":"input_file","file_id":"f1"}]},{"role":"assistant","content":[{"type":"output_text","text":"yes"},` +
				`{"type":"refusal","refusal":"no"}]},{"role":"assistant","content":"never"}],"reasoning":{"effort":"low"}}`,
		}, {
			name: "a chat completion with tools", address: "https://api.openai.com/v1/chat/completions",
			body: `{"model":"m","tools":[{"type":"function","function":` + tool + `}],"messages":[{"role":"assistant","content":null,` +
				`"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"c1","content":"42"}],` +
				`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}}}`,
			wantAddress: "https://api.openai.com/v1/responses/input_tokens",
			want: `{"model":"m","tools":[` + flatTool + `],"input":[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"c1","output":"42"}],` +
				`"text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"}}}}`,
		}, {
			name: "JSON mode", address: "https://api.openai.com/v1/chat/completions",
			body:        `{"model":"m","messages":[],"response_format":{"type":"json_object"}}`,
			wantAddress: "https://api.openai.com/v1/responses/input_tokens",
			want:        `{"model":"m","input":[],"text":{"format":{"type":"json_object"}}}`,
		}, {
			name: "a message", address: "https://api.anthropic.com/v1/messages?beta=true",
			body: `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"system":"be","stream":true,` +
				`"temperature":1,"stop_sequences":["x"],"tools":[{"name":"t"}],"thinking":{"type":"enabled","budget_tokens":1024}}`,
			wantAddress: "https://api.anthropic.com/v1/messages/count_tokens?beta=true",
			want: `{"model":"claude","messages":[{"role":"user","content":"hi"}],"system":"be","tools":[{"name":"t"}],` +
				`"thinking":{"type":"enabled","budget_tokens":1024}}`,
		}, {
			name: "Gemini", address: "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
			body:        `{"contents":[{"parts":[{"text":"hi"}]}],"systemInstruction":{"parts":[]},"generationConfig":{"maxOutputTokens":9}}`,
			wantAddress: "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:countTokens",
			want: `{"generateContentRequest":{"model":"models/gemini-2.5-flash","contents":[{"parts":[{"text":"hi"}]}],` +
				`"systemInstruction":{"parts":[]},"generationConfig":{"maxOutputTokens":9}}}`,
			reply: `{"totalTokens":7}`,
		}, {
			name: "Gemini, streamed, with a key and an escape in the address", address: "https://proxy.example/v1beta/models/a%2Fb:streamGenerateContent?alt=sse&key=k",
			body:        `{"contents":[]}`,
			wantAddress: "https://proxy.example/v1beta/models/a%2Fb:countTokens?key=k",
			want:        `{"generateContentRequest":{"model":"models/a/b","contents":[]}}`,
			reply:       `{"totalTokens":7}`,
		}, {
			name:        "Vertex AI",
			address:     "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
			body:        `{"contents":[],"safetySettings":[],"tools":[],"system_instruction":{}}`,
			wantAddress: "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/m:countTokens",
			want:        `{"contents":[],"tools":[],"system_instruction":{}}`,
			reply:       `{"totalTokens":7}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			original, err := http.NewRequest("POST", c.address, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.reply == "" {
				c.reply = `{"input_tokens":7}`
			}
			var asked http.Request
			var sent string
			n, err := CountRequest(t.Context(), replyingTo(&asked, &sent, 200, c.reply), original, []byte(c.body))
			if n != 7 || err != nil {
				t.Fatalf("got %d, %v, want 7", n, err)
			}
			if asked.Method != "POST" || asked.URL.String() != c.wantAddress {
				t.Errorf("asked %s %s\nwant POST %s", asked.Method, asked.URL, c.wantAddress)
			}
			var have, want any
			if json.Unmarshal([]byte(sent), &have) != nil || json.Unmarshal([]byte(c.want), &want) != nil || !reflect.DeepEqual(have, want) {
				t.Errorf("sent %s\nwant %s", sent, c.want)
			}
		})
	}
}

// The call for the count has the caller's headers, but for those of the one request.
func TestRequestHeaders(t *testing.T) {
	original, _ := http.NewRequest("POST", "https://10.0.0.1/v1/messages", nil)
	original.Host = "api.example"
	original.Header = http.Header{
		"X-Api-Key": {"secret"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"a", "b"}, "User-Agent": {"sdk"},
		"Accept": {"text/event-stream"}, "Accept-Encoding": {"br"}, "Content-Type": {"application/json; charset=utf-8"},
		"Content-Length": {"12"}, "Idempotency-Key": {"once"}, "Expect": {"100-continue"},
	}
	before := original.Header.Clone()
	var asked http.Request
	var sent string
	if _, err := CountRequest(t.Context(), replyingTo(&asked, &sent, 200, `{"input_tokens":7}`), original, []byte(`{"model":"m"}`)); err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"X-Api-Key": {"secret"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"a", "b"}, "User-Agent": {"sdk"},
		"Content-Type": {"application/json"},
	}
	if !reflect.DeepEqual(asked.Header, want) || asked.Host != "api.example" {
		t.Errorf("asked host %s with %v, want api.example with %v", asked.Host, asked.Header, want)
	}
	if !reflect.DeepEqual(original.Header, before) {
		t.Errorf("the caller's headers became %v", original.Header)
	}
}

// What cannot be counted costs no call.
func TestRequestUnsupported(t *testing.T) {
	const chat = "https://api.openai.com/v1/chat/completions"
	for _, c := range []struct{ method, address, body string }{
		{"GET", chat, `{"messages":[]}`},
		{"POST", "https://api.openai.com/v1/embeddings", `{}`},
		{"POST", "https://api.openai.com/v1/completions", `{}`},
		{"POST", "https://x.openai.azure.com/openai/deployments/d/chat/completions", `{"messages":[]}`},
		{"POST", "https://api.anthropic.com/v1/messages/count_tokens", `{}`},
		{"POST", "https://localhost/v1/models/m:countTokens", `{}`},
		{"POST", "https://localhost/v1/models/m:embedContent", `{}`},
		{"POST", "https://localhost/m:generateContent", `{}`},
		{"POST", "https://localhost/v1/projects/p/publishers/anthropic/models/m:rawPredict", `{}`},
		{"POST", "https://localhost/api/chat", `{}`},
		{"POST", "https://api.openai.com/v1/responses", `{"prompt":{"id":"p"}}`},
		{"POST", chat, `{}`},
		{"POST", chat, `{"messages":"hi"}`},
		{"POST", chat, `{"messages":[{"role":"function","content":"x"}]}`},
		{"POST", chat, `{"messages":[{"role":"user","content":7}]}`},
		{"POST", chat, `{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`},
		{"POST", chat, `{"messages":[{"role":"assistant","tool_calls":[{"type":"custom"}]}]}`},
		{"POST", chat, `{"messages":[],"functions":[]}`},
		{"POST", chat, `{"messages":[],"web_search_options":{}}`},
		{"POST", chat, `{"messages":[],"tools":[{"type":"custom"}]}`},
		{"POST", chat, `{"messages":[],"tools":{}}`},
		{"POST", chat, `{"messages":[],"response_format":7}`},
	} {
		original, _ := http.NewRequest(c.method, c.address, nil)
		n, err := CountRequest(t.Context(), roundTripper(func(r *http.Request) (*http.Response, error) {
			t.Errorf("%s: called %s", c.body, r.URL)
			return nil, errors.New("called")
		}), original, []byte(c.body))
		if n != 0 || !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s %s %s: got %d, %v, want ErrUnsupported", c.method, c.address, c.body, n, err)
		}
	}
}

func TestRequestFails(t *testing.T) {
	const key = "sk-0123456789abcdef"
	echo := `{"error":{"message":"no ` + key + ` known"}}`
	for _, c := range []struct {
		name, body string
		status     int
		reply      string
		want       string
	}{
		{"no JSON", `{`, 200, ``, "count tokens: body is not a JSON object"},
		{"no object", `null`, 200, ``, "count tokens: body is not a JSON object"},
		{"refused", `{}`, 401, echo, "count tokens: status 401: no *** known"},
		{"redirected", `{}`, 308, ``, "count tokens: status 308: Permanent Redirect"},
		{"no count", `{}`, 200, `{"output_tokens":1}`, "count tokens: reply has no input_tokens that is an integer of 0 or more"},
		{"not believed", `{}`, 200, `{"input_tokens":1099511627777}`, "count tokens: input_tokens is 1099511627777, at most 1099511627776"},
	} {
		for name, value := range map[string]string{"Authorization": "Bearer " + key, "X-Api-Key": key, "Api-Key": key, "Cookie": key} {
			original, _ := http.NewRequest("POST", "https://localhost/v1/messages", nil)
			original.Header.Set(name, value)
			var asked http.Request
			var sent string
			n, err := CountRequest(t.Context(), replyingTo(&asked, &sent, c.status, c.reply), original, []byte(c.body))
			if err == nil || err.Error() != c.want || n != 0 {
				if !(^uint(0)>>32 == 0 && c.name == "not believed") { // an int of 32 bits holds no such number
					t.Errorf("%s, %s: got %d, %v, want %s", c.name, name, n, err, c.want)
				}
			}
			var status *StatusError
			if c.status != 200 && (!errors.As(err, &status) || status.Status != c.status) {
				t.Errorf("%s: error %v has no status %d", c.name, err, c.status)
			}
		}
	}

	original, _ := http.NewRequest("POST", "https://localhost/v1beta/models/m:generateContent?key=a%2Fb%2Bsecret", nil)
	_, err := CountRequest(t.Context(), roundTripper(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("asked %s, key a/b+secret", r.URL)
	}), original, []byte(`{}`))
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the key of the query is in the error: %v", err)
	}
}

// A count that does not come holds the call up for 10 seconds, and never longer than the caller's
// context lasts.
func TestRequestTimeLimit(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{time.Hour: 10 * time.Second, time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			original, _ := http.NewRequest("POST", "https://localhost/v1/messages", nil)
			start := time.Now()
			_, err := CountRequest(ctx, roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}), original, []byte(`{}`))
			if took := time.Since(start); took != want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v, want context.DeadlineExceeded after %v", took, err, want)
			}
		})
	}
}

// Over a real connection: the body arrives whole, and an answer in gzip is read.
func TestRequestOverHTTP(t *testing.T) {
	text := strings.Repeat("long ", 100_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Input string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Input != text || r.URL.Path != "/v1/responses/input_tokens" {
			t.Errorf("%s got %d bytes, %v", r.URL.Path, len(body.Input), err)
		}
		fmt.Fprintf(w, `{"object":"response.input_tokens","input_tokens":%d}`, len(body.Input)/5)
	}))
	defer server.Close()
	original, _ := http.NewRequest("POST", server.URL+"/v1/responses", nil)
	body, _ := json.Marshal(map[string]any{"model": "m", "input": text})
	n, err := CountRequest(t.Context(), http.DefaultTransport, original, body)
	if n != 100_000 || err != nil {
		t.Errorf("got %d, %v, want 100000", n, err)
	}
}

// FuzzRequest checks that no body makes the conversion fail in another way than by an error that
// tells nothing of it, and that what is sent is an object.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"type":"function","function":{}}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f"}}]},{"role":"tool","content":"x"}]}`,
		`{"messages":[null],"response_format":{"type":"json_schema","json_schema":null}}`, `{"input":"hi"}`, `{"contents":[]}`, `null`, `[]`, `{"`,
	} {
		for path := range uint8(4) {
			f.Add(path, []byte(body))
		}
	}
	paths := []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/m:generateContent"}
	f.Fuzz(func(t *testing.T, path uint8, body []byte) {
		original, _ := http.NewRequest("POST", "https://localhost"+paths[int(path)%len(paths)], nil)
		call, _, err := callFor(original, body)
		if err != nil {
			if !errors.Is(err, ErrUnsupported) && err.Error() != "body is not a JSON object" {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		var sent map[string]any
		if err := json.Unmarshal(call.Body, &sent); err != nil || !json.Valid(body) {
			t.Errorf("%q: sent %q: %v", body, call.Body, err)
		}
	})
}
