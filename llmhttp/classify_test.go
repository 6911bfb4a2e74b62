package llmhttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headerstest"
)

// A refusalCase is a case of the corpus in testdata/problems.
type refusalCase struct {
	name, want string
	host       string
	wire       string // the answer
	status     int
	header     http.Header
	body       []byte
}

// refusals returns all cases of the corpus.
func refusals(t testing.TB) (all []refusalCase) {
	files, err := filepath.Glob("testdata/problems/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(content), "\r\n", "\n")
		for one := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n###\n") {
			name, one, _ := strings.Cut(one, "\n")
			want, wire, _ := strings.Cut(one, "\n")
			r := refusalCase{name: filepath.Base(file) + ": " + name, want: want, wire: wire}
			if before, host, ok := strings.Cut(want, "; host="); ok {
				r.want, r.host = before, host
			}
			resp := r.response(t)
			if r.body, err = io.ReadAll(resp.Body); err != nil {
				t.Fatalf("%s: %v", r.name, err)
			}
			r.status, r.header = resp.StatusCode, resp.Header
			all = append(all, r)
		}
	}
	return all
}

// response returns the answer as a client returns it.
func (r *refusalCase) response(t testing.TB) *http.Response {
	req := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: r.host, Path: "/v1"}}
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(r.wire)), req)
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	return resp
}

// problemText returns a problem in the form of the corpus.
func problemText(p *Problem) string {
	if p == nil {
		return "none"
	}
	s := p.Kind.String()
	if p.RetryAfter != 0 {
		s += "; after=" + p.RetryAfter.String()
	}
	if !p.Until.IsZero() {
		s += "; until=" + p.Until.Format(time.RFC3339Nano)
	}
	if p.Code != "" {
		s += "; code=" + p.Code
	}
	if p.Quota != "" {
		s += "; quota=" + p.Quota
	}
	if p.Limit != 0 {
		s += "; limit=" + strconv.Itoa(p.Limit)
	}
	if learned := headerstest.Format(p.limits()); learned != "" {
		s += "; learned=" + learned
	}
	return s
}

// A time that is stated in words counts where no header and no field states one.
func TestStatedDelay(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"Please try again in 20s. Visit https://a.test": 20 * time.Second,
		"Please try again in 6ms.":                      6 * time.Millisecond,
		"Please try again in 1m12.5s, or later":         72500 * time.Millisecond,
		"Try again in 2h3m":                             2*time.Hour + 3*time.Minute,
		"Please retry after 34 seconds.":                34 * time.Second,
		"Please retry after 1 second.":                  time.Second,
		"Try again in 100000h.":                         headers.MaxReset,
		"Try again in -5s.":                             0,
		"Try again in a while.":                         0,
		"Please retry after 34 minutes.":                0,
		"Please retry after a few seconds.":             0,
	} {
		body := []byte(`{"error":{"message":"Rate limit reached. ` + message + `"}}`)
		if p := classify(429, http.Header{}, body, "a.test", headerstest.Now); p.RetryAfter != want {
			t.Errorf("%s: after %v, want %v", message, p.RetryAfter, want)
		}
		told := http.Header{"Retry-After": {"3"}}
		if p := classify(429, told, body, "a.test", headerstest.Now); p.RetryAfter != 3*time.Second {
			t.Errorf("%s, with a header: after %v", message, p.RetryAfter)
		}
	}
}

func TestClassifyCorpus(t *testing.T) {
	all := refusals(t)
	if len(all) < 106 {
		t.Errorf("only %d cases", len(all))
	}
	for _, r := range all {
		p := classify(r.status, r.header, r.body, r.host, headerstest.Now)
		if got := problemText(p); got != r.want {
			t.Errorf("%s:\n got %s\nwant %s", r.name, got, r.want)
		}
		if p.Status != r.status {
			t.Errorf("%s: status %d, want %d", r.name, p.Status, r.status)
		}
	}
}

// Classify agrees with classify, takes the time from the clock, and leaves the body unchanged.
func TestClassify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(headerstest.Now))
		for _, r := range refusals(t) {
			resp := r.response(t)
			if got := problemText(Classify(resp)); got != r.want {
				t.Errorf("%s:\n got %s\nwant %s", r.name, got, r.want)
			}
			if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, r.body) {
				t.Errorf("%s: the body reads %q, %v", r.name, body, err)
			}
		}
	})
}

func TestClassifyNothing(t *testing.T) {
	for _, resp := range []*http.Response{
		nil,
		{StatusCode: 101, Body: io.NopCloser(strings.NewReader("x"))},
		{StatusCode: 200, Header: headerstest.Parse("Retry-After: 5"), Body: io.NopCloser(strings.NewReader(`{"error":{"code":"insufficient_quota"}}`))},
		{StatusCode: 399},
	} {
		var before io.ReadCloser
		if resp != nil {
			before = resp.Body
		}
		if p := Classify(resp); p != nil {
			t.Errorf("status %d: got %v", resp.StatusCode, p)
		}
		if resp != nil && resp.Body != before {
			t.Errorf("status %d: the body was touched", resp.StatusCode)
		}
	}
	if p := classify(200, headerstest.Parse("Retry-After: 5"), nil, "", headerstest.Now); p != nil {
		t.Errorf("got %v", p)
	}
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		resp := &http.Response{StatusCode: 429, Body: body}
		if p := Classify(resp); p == nil || p.Kind != RateLimited || resp.Body != body {
			t.Errorf("without a body: got %v and the body %v", p, resp.Body)
		}
	}
}

// Gemini's days end at midnight in Los Angeles.
func TestNextMidnight(t *testing.T) {
	pst := time.FixedZone("", -8*3600)
	tests := []struct {
		now, want string
		zone      *time.Location
	}{
		{"2026-10-04T06:59:59Z", "2026-10-04T07:00:00Z", pacific()},
		{"2026-10-04T07:00:00Z", "2026-10-05T07:00:00Z", pacific()},
		{"2026-12-31T12:00:00Z", "2027-01-01T08:00:00Z", pacific()},
		{"2026-11-01T07:30:00Z", "2026-11-02T08:00:00Z", pacific()}, // the clocks are set back
		{"2026-03-08T08:30:00Z", "2026-03-09T07:00:00Z", pacific()}, // and forward
		{"2026-10-04T07:00:00Z", "2026-10-04T08:00:00Z", zoneOr("No/Such_Zone", -8*time.Hour)},
		{"2026-12-31T12:00:00Z", "2027-01-01T08:00:00Z", pst},
	}
	for _, test := range tests {
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := nextMidnight(now, test.zone).Format(time.RFC3339); got != test.want {
			t.Errorf("at %s in %v: got %s, want %s", test.now, test.zone, got, test.want)
		}
	}
}

// countedBody counts the bytes read of it.
type countedBody struct {
	io.Reader
	read, closed int
}

func (b *countedBody) Read(p []byte) (int, error) {
	if b.closed > 0 {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.Reader.Read(p)
	b.read += n
	return n, err
}

func (b *countedBody) Close() error {
	b.closed++
	return errors.New("closed")
}

// endless reads as one letter forever. With the letter zero, each Read returns nothing.
type endless struct{ letter byte }

func (e endless) Read(p []byte) (int, error) {
	if e.letter == 0 {
		return 0, nil
	}
	for i := range p {
		p[i] = e.letter
	}
	return len(p), nil
}

// failsOnce returns an error at the first Read, and io.EOF later.
type failsOnce struct{ err error }

func (f *failsOnce) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

func TestClassifyBodies(t *testing.T) {
	broken := errors.New("broken")
	quota := `{"error":{"code":"insufficient_quota"}}`
	long := quota + strings.Repeat(" ", maxErrorBody) + "the end"
	tests := []struct {
		name    string
		body    io.Reader
		kind    ProblemKind
		atFirst int // bytes that Classify reads
		all     string
		err     error
	}{
		{"short", strings.NewReader(quota), Exhausted, len(quota), quota, nil},
		{"byte by byte", iotest.OneByteReader(strings.NewReader(quota)), Exhausted, len(quota), quota, nil},
		{"its end with the last of it", iotest.DataErrReader(strings.NewReader(quota)), Exhausted, len(quota), quota, nil},
		{"empty", strings.NewReader(""), RateLimited, 0, "", nil},
		{"longer than what is read", strings.NewReader(long), Exhausted, maxErrorBody, long, nil},
		{"as long as what is read", strings.NewReader(long[:maxErrorBody]), Exhausted, maxErrorBody, long[:maxErrorBody], nil},
		{"broken off", io.MultiReader(strings.NewReader(quota[:20]), iotest.ErrReader(broken)), RateLimited, 20, quota[:20], broken},
		{"broken off, which is said once", io.MultiReader(strings.NewReader(quota[:20]), &failsOnce{broken}), RateLimited, 20, quota[:20], broken},
		{"broken off after what is read", io.MultiReader(strings.NewReader(long), iotest.ErrReader(broken)), Exhausted, maxErrorBody, long, broken},
	}
	for _, test := range tests {
		under := &countedBody{Reader: test.body}
		resp := &http.Response{StatusCode: 429, Body: under}
		for range 2 { // the second call reads the bytes that the first put back
			if p := Classify(resp); p == nil || p.Kind != test.kind {
				t.Errorf("%s: got %v, want %v", test.name, p, test.kind)
			}
		}
		if under.read != test.atFirst {
			t.Errorf("%s: %d bytes were read, want %d", test.name, under.read, test.atFirst)
		}
		all, err := io.ReadAll(iotest.HalfReader(resp.Body))
		if string(all) != test.all || err != test.err {
			t.Errorf("%s: it reads %d bytes, %v; want %d, %v", test.name, len(all), err, len(test.all), test.err)
		}
		if err := resp.Body.Close(); under.closed != 1 || err == nil || err.Error() != "closed" {
			t.Errorf("%s: closed %d times, %v", test.name, under.closed, err)
		}
	}
}

// A closed body fails as it does without Classify.
func TestClassifyClosed(t *testing.T) {
	resp := &http.Response{StatusCode: 429, Body: &countedBody{Reader: strings.NewReader("some text")}}
	Classify(resp)
	resp.Body.Close()
	if n, err := resp.Body.Read(make([]byte, 9)); n != 0 || err != http.ErrBodyReadAfterClose {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestClassifyEndlessBodies(t *testing.T) {
	for _, letter := range []byte{0, ' ', '[', '{', '"', '9'} {
		under := &countedBody{Reader: endless{letter}}
		if p := Classify(&http.Response{StatusCode: 529, Body: under}); p.Kind != Overloaded || under.read > maxErrorBody {
			t.Errorf("%q: got %v after %d bytes", letter, p, under.read)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, r := range refusals(f) {
		lines := ""
		for key, values := range r.header {
			lines += key + ": " + values[0] + "\n"
		}
		f.Add(r.status, lines, r.body, r.host, int64(1791115200))
	}
	f.Fuzz(func(t *testing.T, status int, lines string, body []byte, host string, now int64) {
		h, at := headerstest.Parse(lines), time.Unix(now%(1<<40), 0)
		p := classify(status, h, body, host, at)
		again := classify(status, h, body, host, at)
		if status < 400 {
			if p != nil {
				t.Errorf("status %d: got %v", status, p)
			}
			return
		}
		if *p != *again {
			t.Errorf("first %+v, then %+v", p, again)
		}
		if p.Kind < RateLimited || p.Kind > Failed || p.RetryAfter < 0 || p.RetryAfter > headers.MaxReset || p.Limit < 0 ||
			p.Until.IsZero() == (p.Kind == DailyQuota) || p.Kind == DailyQuota && (p.Until.Before(at) || p.Until.Sub(at) > 26*time.Hour) {
			t.Errorf("out of range: %+v", p)
		}
		if text := p.Error(); len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("says %q", text)
		}
		resp := &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(iotest.HalfReader(bytes.NewReader(body)))}
		Classify(resp)
		if all, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(all, body) {
			t.Errorf("the body reads %q, %v", all, err)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	r := refusals(b)[0]
	b.ReportAllocs()
	for b.Loop() {
		classify(r.status, r.header, r.body, r.host, headerstest.Now)
	}
}

// A nil Problem can be matched, too.
func TestNoProblem(t *testing.T) {
	none := Classify(&http.Response{StatusCode: 200, Body: http.NoBody})
	if none != nil || errors.Is(none, ErrRateLimited) || none.Error() == "" {
		t.Errorf("it is %v", none)
	}
}

func TestProblem(t *testing.T) {
	sentinels := []error{ErrRateLimited, ErrDailyQuota, ErrExhausted, ErrOverloaded, ErrNotSent}
	tests := []struct {
		problem Problem
		text    string
		is      error // the only one that it is
	}{
		{Problem{Kind: RateLimited, Status: 429, Code: "rate_limit_exceeded", RetryAfter: 2 * time.Second},
			"provider: rate limited (429 rate_limit_exceeded), again in 2s", ErrRateLimited},
		{Problem{Kind: DailyQuota, Status: 429, Code: "RESOURCE_EXHAUSTED", Quota: "RequestsPerDay", Limit: 20,
			RetryAfter: time.Hour, Until: time.Date(2026, 10, 5, 0, 0, 0, 0, time.FixedZone("", -7*3600))},
			"provider: daily quota used up (429 RESOURCE_EXHAUSTED RequestsPerDay), until 2026-10-05T07:00:00Z", ErrDailyQuota},
		{Problem{Kind: Exhausted, Status: 402}, "provider: credit or plan used up (402)", ErrExhausted},
		{Problem{Kind: Overloaded, Status: 529, Code: "overloaded_error"}, "provider: overloaded (529 overloaded_error)", ErrOverloaded},
		{Problem{Kind: Rejected, Status: 400}, "provider: rejected (400)", nil},
		{Problem{Kind: Failed, Status: 500, RetryAfter: time.Second}, "provider: failed (500), again in 1s", nil},
		{Problem{}, "provider: unknown problem (0)", nil},
		{Problem{Kind: NotSent, Status: 429, Code: "rpm_exceeded", RetryAfter: time.Second}, "llmhttp: call was not sent (429 rpm_exceeded), again in 1s", ErrNotSent},
		{Problem{Kind: NotSent + 1}, "provider: unknown problem (0)", nil},
	}
	for _, test := range tests {
		err := fmt.Errorf("call: %w", &test.problem)
		if got := test.problem.Error(); got != test.text {
			t.Errorf("got %q, want %q", got, test.text)
		}
		for _, s := range sentinels {
			if got := errors.Is(err, s); got != (s == test.is) {
				t.Errorf("%s: is %q %v", test.text, s, got)
			}
		}
		if test.problem.Is(nil) {
			t.Errorf("%s: is nil", test.text)
		}
		var p *Problem
		if !errors.As(err, &p) || p != &test.problem {
			t.Errorf("%s: not found by errors.As", test.text)
		}
		if got := test.problem.limits(); got != (ratelimit.ProviderLimits{}) {
			t.Errorf("%s: teaches %+v", test.text, got)
		}
	}
}
