package llmhttp_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// form returns a body with a file of a size and fields, and its type.
func form(t *testing.T, fileFirst bool, file int, fields ...string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part := func() {
		p, err := w.CreateFormFile("file", "speech.mp3")
		if err != nil {
			t.Fatal(err)
		}
		p.Write(bytes.Repeat([]byte("x"), file))
	}
	if fileFirst {
		part()
	}
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if !fileFirst {
		part()
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

// The model of a call whose body is a form is read from it, before the file or behind it, and the
// form is sent as it came.
func TestForms(t *testing.T) {
	for _, test := range []struct {
		name, path, model string
		file              int
		getBody           bool
		fields            []string
	}{
		{"transcription", "/v1/audio/transcriptions", "gpt-4o-transcribe", 100_000, true, []string{"model", "gpt-4o-transcribe", "stream", "true"}},
		{"translation", "/v1/audio/translations", "whisper-1", 100, false, []string{"model", "whisper-1"}},
		{"edit of an image", "/v1/images/edits", "gpt-image-1", 100, true, []string{"prompt", strings.Repeat("x", 1000), "model", "gpt-image-1"}},
		{"the model that is meant", "/v1/images/variations", "dall-e-2", 100, true, []string{"n", "2"}},
		{"no field of that name", "/v1/audio/transcriptions", "whisper-1", 100, false, nil},
		{"a quote in the name", "/v1/audio/transcriptions", `a"b\c`, 100, true, []string{"model", `a"b\c`}},
		{"more than MaxBody", "/v1/audio/transcriptions", "gpt-4o-transcribe", 1 << 20, true, []string{"model", "gpt-4o-transcribe"}},
		{"Azure", "/openai/deployments/d/audio/transcriptions", "d", 100, true, []string{"model", "other"}},
	} {
		for _, fileFirst := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				body, contentType := form(t, fileFirst, test.file, test.fields...)
				rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 10}}})
				var stream bool
				tr := &llmhttp.Transport{Limiter: rl, MaxBody: 512 << 10, Base: base(func(req *http.Request) (*http.Response, error) {
					if got, err := io.ReadAll(req.Body); err != nil || string(got) != body {
						t.Errorf("sent %d bytes of %d, %v", len(got), len(body), err)
					}
					return response(req, 200, `{"text":"`+strings.Repeat("hello ", 100)+`","usage":{"type":"tokens","input_tokens":14,"output_tokens":45,"total_tokens":59}}`), nil
				}), OnEvent: func(e llmhttp.Event) { stream = e.Stream }}
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://llm.test"+test.path, strings.NewReader(body))
				req.Header.Set("Content-Type", contentType)
				if !test.getBody {
					req.GetBody = nil
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, resp)
				if s := rl.Stats(test.model); s.RPM != 1 || s.ITPM != 14 || s.OTPM != 45 || len(rl.AllStats()) != 1 {
					t.Errorf("charged %v", rl.AllStats())
				}
				if want := len(test.fields) > 2 && test.fields[2] == "stream"; stream != want {
					t.Errorf("a stream: %t", stream)
				}
			})
		}
	}
}

// A broken form is sent as it came, too, and counts.
func TestBrokenForm(t *testing.T) {
	whole, contentType := form(t, true, 50, "model", "m")
	for _, getBody := range []bool{false, true} {
		for cut := range len(whole) {
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 10}}})
			tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				if got, err := io.ReadAll(req.Body); err != nil || string(got) != whole[:cut] {
					t.Errorf("cut at %d: sent %d bytes, %v", cut, len(got), err)
				}
				return response(req, 200, "{}"), nil
			})}
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://llm.test/v1/audio/transcriptions", strings.NewReader(whole[:cut]))
			req.Header.Set("Content-Type", contentType)
			if !getBody {
				req.GetBody = nil
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			if cut > 0 && rl.Stats("m").RPM+rl.Stats("whisper-1").RPM != 1 {
				t.Errorf("cut at %d: charged %v", cut, rl.AllStats())
			}
		}
	}
}
