package httplimit_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/internal/sse"
	"dappco.re/go/core/go-ratelimit/internal/test/piecetest"
)

// usageOf returns the usage that a Handler reads in a body that comes in pieces, and the body as
// the client got it.
func usageOf(t testing.TB, header http.Header, pieces ...[]byte) (usage httplimit.Usage, body []byte) {
	h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		for _, p := range pieces {
			own := bytes.Clone(p)
			w.Write(own)
			if !bytes.Equal(own, p) {
				t.Error("a piece was changed")
			}
			clear(own) // a reader that kept the piece would show it
		}
	}), httplimit.Options{
		Key: tenant, Limits: all(perMinute("tokens", 1)),
		Settle: map[string]httplimit.Settle{"tokens": func(r httplimit.Response) (int, bool) {
			usage = r.Usage
			return 0, true
		}},
	})
	w := get(h, "a")
	return usage, w.Body.Bytes()
}

func TestUsage(t *testing.T) {
	known := func(prompt, cached, output int) httplimit.Usage {
		return httplimit.Usage{Prompt: prompt, Cached: cached, Output: output, Known: true}
	}
	const most = min(1<<40, math.MaxInt>>3) // tokens that are believed
	var unknown httplimit.Usage
	begin := `data: {"type":"message_start","message":{"usage":{"input_tokens":25,"cache_read_input_tokens":30,` +
		`"cache_creation_input_tokens":5,"output_tokens":1}}}` + "\n\n"
	delta := "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n"
	large := `data: {"usage":{"prompt_tokens":1,"completion_tokens":2},"x":"` + strings.Repeat("x", sse.MaxEvent) + "\"}\n\n"
	for _, test := range []struct {
		name, body string
		want       httplimit.Usage
	}{
		{"nothing", "", unknown},
		{"chat", completion, known(20, 0, 5)},
		{"cached", `{"usage":{"prompt_tokens":20,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":16}}}`, known(20, 16, 5)},
		{"a response", `{"usage":{"input_tokens":3,"output_tokens":4,"input_tokens_details":{"cached_tokens":2}}}`, known(3, 2, 4)},
		{"embeddings", `{"data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`, known(8, 0, 0)},
		{"white space in front", " \r\n\t" + completion, known(20, 0, 5)},
		{"zero", `{"usage":{"prompt_tokens":0,"completion_tokens":0}}`, known(0, 0, 0)},
		{"a float without a fraction", `{"usage":{"prompt_tokens":20.0,"completion_tokens":5e0}}`, known(20, 0, 5)},
		{"null", `{"usage":null}`, unknown},
		{"counts of null", `{"usage":{"prompt_tokens":null,"completion_tokens":null}}`, unknown},
		{"negative", `{"usage":{"prompt_tokens":20,"completion_tokens":-5}}`, unknown},
		{"a fraction", `{"usage":{"prompt_tokens":20.5,"completion_tokens":5}}`, unknown},
		{"a string", `{"usage":{"prompt_tokens":"20","completion_tokens":5}}`, unknown},
		{"an object", `{"usage":{"prompt_tokens":{"x":1},"completion_tokens":5}}`, unknown},
		{"more than is believed", `{"usage":{"prompt_tokens":1099511627777,"completion_tokens":5}}`, unknown},
		{"more than int", `{"usage":{"prompt_tokens":99999999999999999999,"completion_tokens":5}}`, unknown},
		{"the most", fmt.Sprintf(`{"usage":{"prompt_tokens":%d,"completion_tokens":5}}`, most), known(most, 0, 5)},
		{"deeper than the usage", `{"x":{"usage":{"prompt_tokens":20,"completion_tokens":5}}}`, unknown},
		{"in a text", `{"content":"\"usage\":{\"prompt_tokens\":20}"}`, unknown},
		{"cut off behind the usage", completion[:len(completion)-1], known(20, 0, 5)},
		{"cut off before the usage", completion[:30], unknown},
		{"text", `The "usage" of {"usage":{"prompt_tokens":20}}`, unknown},
		{"a chat stream", chunks, known(20, 0, 5)},
		{"the largest counts", "data: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n" + chunks, known(20, 0, 5)},
		{"the largest of each", chunks + "data: {\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":7}}\n\n", known(20, 0, 7)},
		{"no input", `{"usage":{"completion_tokens":5}}`, unknown},
		{"no input, but cached", `{"usage":{"cache_read_input_tokens":5,"output_tokens":5}}`, unknown},
		{"Anthropic", `{"usage":{"input_tokens":25,"cache_read_input_tokens":30,"cache_creation_input_tokens":5,"output_tokens":15}}`, known(60, 30, 15)},
		{"an Anthropic stream", begin + delta, known(60, 30, 15)},
		{"an Anthropic stream that repeats the input", begin + `data: {"usage":{"input_tokens":25,"output_tokens":15}}`, known(60, 30, 15)},
		{"the begin of an Anthropic stream", begin, unknown},
		{"the end of an Anthropic stream", delta, unknown},
		{"LiteLLM", `{"usage":{"prompt_tokens":60,"cache_read_input_tokens":30,"completion_tokens":15,"prompt_tokens_details":{"cached_tokens":30}}}`, known(60, 30, 15)},
		{"a sum of more than is believed", `{"usage":{"input_tokens":1099511627776,"cache_read_input_tokens":1,"output_tokens":5}}`, unknown},
		{"a response stream", "event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":8}}}\n\n", known(7, 0, 8)},
		{"Groq", "data: {\"x_groq\":{\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":8}}}\n\n", known(7, 0, 8)},
		{"no [DONE], no blank line", "data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":8}}", known(7, 0, 8)},
		{"comments and other fields", ": usage\nid: 1\ndata:{\"usage\":{\"prompt_tokens\":7}}\n\n", known(7, 0, 0)},
		{"an event over several lines", "data: {\"usage\":\ndata: {\"prompt_tokens\":7}}\n\n", known(7, 0, 0)},
		{"an event that is no JSON", "data: \"usage\" x\n\n" + chunks, known(20, 0, 5)},
		{"a large event", large, known(1, 0, 2)},
		{"an invalid count in an event", "data: {\"usage\":{\"prompt_tokens\":-7}}\n\n" + chunks, unknown},
		{"blank lines in front", "\n\n" + chunks, known(20, 0, 5)},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := []byte(test.body)
			ways := map[string][][]byte{"whole": {body}}
			for _, size := range []int{1, 2, 7} {
				if len(body) < 1000 || size == 7 {
					for p := range piecetest.Cut(body, size) {
						name := fmt.Sprintf("by %d", size)
						ways[name] = append(ways[name], p)
					}
				}
			}
			for name, pieces := range ways {
				usage, got := usageOf(t, nil, pieces...)
				if usage != test.want {
					t.Errorf("%s: %+v, want %+v", name, usage, test.want)
				}
				if !bytes.Equal(got, body) {
					t.Errorf("%s: the body was changed", name)
				}
			}
		})
	}
}

func TestWhichBodiesAreRead(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte(completion))
	z.Close()
	for _, test := range []struct {
		contentType, encoding, body string
		want                        bool
	}{
		{"", "", completion, true},
		{"application/json", "", completion, true},
		{"APPLICATION/json ; charset=utf-8", "", completion, true},
		{"application/problem+json", "", completion, true},
		{"text/event-stream; charset=utf-8", "", chunks, true},
		{"text/event-stream", "identity", chunks, true},
		{"text/html", "", completion, false},
		{"application/jsonl", "", completion, false},
		{"application/json", "gzip", zipped.String(), false},
		{"application/json", "gzip", completion, false},
	} {
		h := http.Header{}
		if test.contentType != "" {
			h.Set("Content-Type", test.contentType)
		}
		if test.encoding != "" {
			h.Set("Content-Encoding", test.encoding)
		}
		if usage, _ := usageOf(t, h, []byte(test.body)); usage.Known != test.want {
			t.Errorf("%q, %q: %+v", test.contentType, test.encoding, usage)
		}
	}
}

// What is written after its handler has returned reaches no other response.
func TestLateWrites(t *testing.T) {
	var late http.ResponseWriter
	options := httplimit.Options{
		Key: tenant, Limits: all(perMinute("tokens", 1000)), Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
	}
	h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		late = w
		w.Write([]byte(`{"usage":{"prompt`))
	}), options)
	get(h, "a")
	late.Write([]byte(`_tokens":20}}`)) // to a recorder: a server would return an error
	late.(interface {
		WriteString(string) (int, error)
	}).WriteString("{")
	if usage, _ := usageOf(t, nil, []byte(completion)); !usage.Known {
		t.Errorf("%+v", usage)
	}
}

// FuzzUsage compares the usage of a body in pieces with that of the whole one, and that of JSON
// with encoding/json.
func FuzzUsage(f *testing.F) {
	f.Add([]byte(completion), uint64(1))
	f.Add([]byte(chunks), uint64(2))
	f.Add([]byte(`{"usage":{"prompt_tokens":1e3,"completion_tokens":-0}}`), uint64(3))
	f.Add([]byte(" [{}] \n\n{"), uint64(4))
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		whole, got := usageOf(t, nil, body)
		if !bytes.Equal(got, body) {
			t.Fatal("the body was changed")
		}
		pieces, got := usageOf(t, nil, piecetest.Random(rand.New(rand.NewPCG(seed, 0)), body)...)
		if pieces != whole || !bytes.Equal(got, body) {
			t.Fatalf("in pieces %+v, whole %+v", pieces, whole)
		}
		if whole.Known && (min(whole.Prompt, whole.Output, whole.Cached) < 0 || max(whole.Prompt, whole.Output, whole.Cached) > min(1<<40, math.MaxInt)) {
			t.Fatalf("%+v", whole)
		}
		var stated struct {
			Usage struct {
				Prompt *int `json:"prompt_tokens"`
				Output *int `json:"completion_tokens"`
			} `json:"usage"`
		}
		// The oracle is for JSON as providers write it: an object without equal keys.
		again, err := json.Marshal(json.RawMessage(body))
		if err != nil || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) || bytes.Count(again, []byte("tokens")) > 2 ||
			bytes.Contains(again, []byte(`\`)) || json.Unmarshal(body, &stated) != nil || !strings.Contains(string(again), `{"usage":{"prompt_tokens"`) {
			return
		}
		if p, o := stated.Usage.Prompt, stated.Usage.Output; p != nil && o != nil && *p >= 0 && *p <= min(1<<40, math.MaxInt) && *o >= 0 && *o <= min(1<<40, math.MaxInt) {
			if want := (httplimit.Usage{Prompt: *p, Output: *o, Known: true}); whole != want {
				t.Fatalf("%+v, want %+v", whole, want)
			}
		}
	})
}
