package apicall_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCountTokensStatus(t *testing.T) {
	const google = `{
  "error": {
    "code": 400,
    "message": "API key not valid. Please pass a valid API key.",
    "status": "INVALID_ARGUMENT"
  }
}`
	half := strings.Repeat("x", 8<<10-len(secretKey)/2)
	quoted, _ := json.Marshal("the key " + secretKey + " is \u00fcber " + strings.Repeat("y", 9<<10))
	for _, c := range []struct {
		name    string
		status  int
		body    io.Reader
		want    string // the whole error
		atMost  int    // its length where want is only its start
		wrapped error
	}{
		{name: "Google's JSON", status: 400, body: strings.NewReader(google), want: "status 400: API key not valid. Please pass a valid API key."},
		{name: "JSON in one line", status: 429, body: strings.NewReader(`{"error":{"message":"slow down"}}`), want: "status 429: slow down"},
		{name: "JSON of another kind", status: 403, body: strings.NewReader(`{"detail":"no"}`), want: `status 403: {"detail":"no"}`},
		{name: "JSON with an error of another type", status: 403, body: strings.NewReader(`{"error":"no"}`), want: `status 403: {"error":"no"}`},
		{name: "text", status: 500, body: strings.NewReader("\n oops \n"), want: "status 500: oops"},
		{name: "nothing", status: 503, body: strings.NewReader(""), want: "status 503: Service Unavailable"},
		{name: "a status without name", status: 599, body: strings.NewReader(""), want: "status 599: no message"},
		{name: "a good reply with another status", status: 201, body: strings.NewReader(`{"totalTokens":1}`), want: `status 201: {"totalTokens":1}`},
		{name: "no content", status: 204, body: strings.NewReader(""), want: "status 204: No Content"},
		{name: "not modified", status: 304, body: strings.NewReader(""), want: "status 304: Not Modified"},
		{name: "endless", status: 500, body: endless("no "), want: "status 500: no no no", atMost: 8<<10 + 12},
		{name: "endless two-byte characters", status: 500, body: io.MultiReader(strings.NewReader("x"), endless("ü")), want: "status 500: xüü", atMost: 8<<10 + 12},
		{name: "no text", status: 500, body: strings.NewReader("\xff\xfe\x80gone\xff"), want: "status 500: gone"},
		{name: "broken off", status: 502, body: failing("half", io.ErrUnexpectedEOF), want: "status 502: half: read reply: unexpected EOF", wrapped: io.ErrUnexpectedEOF},

		{name: "key in text", status: 400, body: strings.NewReader("bad key " + secretKey + "!"), want: "status 400: bad key ***!"},
		{name: "key in Google's JSON", status: 400, body: strings.NewReader(`{"error":{"message":"bad key ` + secretKey + `"}}`), want: "status 400: bad key ***"},
		{name: "key in JSON of another kind", status: 400, body: strings.NewReader(`{"key":"` + secretKey + `"}`), want: `status 400: {"key":"***"}`},
		{name: "key in JSON that is malformed", status: 400, body: strings.NewReader(`{"error":{"message":"` + secretKey), want: `status 400: {"error":{"message":"***`},
		{name: "key with an escape", status: 400, body: strings.NewReader(`{"error":{"message":"\u0041` + secretKey[1:] + `"}}`), want: `status 400: ***`},
		{name: "key with bytes between", status: 400, body: strings.NewReader(secretKey[:20] + "\xff" + secretKey[20:]), want: `status 400: ***`},
		{name: "key twice", status: 400, body: strings.NewReader(secretKey + secretKey), want: `status 400: ******`},
		{name: "key across the cut", status: 400, body: strings.NewReader(half + secretKey + "rest"), want: "status 400: xxx", atMost: 8<<10 + 12},
		{name: "key across the cut, at its end", status: 400, body: strings.NewReader(half + secretKey), want: "status 400: xxx", atMost: 8<<10 + 12},
		{name: "keys without end", status: 400, body: endless(secretKey + " "), want: "status 400: *** *** ", atMost: 8<<10 + 12},
		{name: "key across the cut behind others", status: 400, body: strings.NewReader(strings.Repeat(secretKey, 100) + strings.Repeat("x", 8<<10-99*len(secretKey)-9) + secretKey), want: "status 400: ***", atMost: 8<<10 + 12},
		{name: "key in a message in JSON", status: 400, body: strings.NewReader(`{"error":{"message":` + string(quoted) + `}}`), want: `status 400: {"error":{"message":"the key *** is über yyy`, atMost: 8<<10 + 12},
		{name: "key broken off", status: 400, body: failing("key "+secretKey[:30], io.ErrUnexpectedEOF), want: "status 400: key : read reply: unexpected EOF"},
		{name: "key in the error of the body", status: 400, body: failing("no", errors.New("reset "+secretKey)), want: "status 400: no: read reply: reset ***"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b *replyBody
			total, err := countOver(func(r *http.Request) (*http.Response, error) {
				response, err := replyingTo(c.status, c.body)(r)
				b = response.Body.(*replyBody)
				return response, err
			})
			wantKeyless(t, err, c.want)
			text := err.Error()
			if c.atMost == 0 && text != c.want {
				t.Errorf("error %q, want %q", text, c.want)
			}
			if c.atMost != 0 && (len(text) > c.atMost || len(text) < 800) {
				t.Errorf("error of %d bytes, want 800 to %d", len(text), c.atMost)
			}
			if text != strings.ToValidUTF8(text, "") {
				t.Errorf("the error is not UTF-8")
			}
			if c.wrapped != nil && !errors.Is(err, c.wrapped) {
				t.Errorf("error %v does not wrap %v", err, c.wrapped)
			}
			if total != 0 {
				t.Errorf("total %d beside an error", total)
			}
			if !b.closed.Load() {
				t.Error("the body was not closed")
			}
		})
	}
}

// A cut through a key, at any character and after any text, leaves at most the odd character of it.
func TestCountTokensCutsNoKey(t *testing.T) {
	for _, keys := range []int{0, 1, 3, 50, 150} {
		for shift := range 3 * len(secretKey) {
			padding := 8<<10 - keys*len(secretKey) + len(secretKey) - shift
			_, err := countOver(replyingTo(400, strings.NewReader(strings.Repeat(secretKey, keys)+strings.Repeat(".", padding)+secretKey+"tail")))
			text := err.Error()
			if strings.Contains(text, secretKey[:2]) || len(text) > 8<<10+len("status 400: ") {
				t.Fatalf("%d keys, shift %d: %d bytes ending in %q", keys, shift, len(text), text[len(text)-60:])
			}
		}
	}
}

func TestCountTokensReply(t *testing.T) {
	const no = "reply has no totalTokens that is an integer of 0 or more"
	const malformed = "reply is not a JSON object"
	filler := func(size int) string {
		const frame = `{"totalTokens":5,"x":""}`
		return frame[:len(frame)-2] + strings.Repeat("x", size-len(frame)) + `"}`
	}
	for _, c := range []struct {
		body string
		want int
		err  string
	}{
		{body: `{"totalTokens":0}`, want: 0},
		{body: `{"totalTokens":12}`, want: 12},
		{body: "\r\n\t {\n  \"totalTokens\": 12 ,\n \"cachedContentTokenCount\": 3\n}\n ", want: 12},
		{body: `{"total\u0054okens":12}`, want: 12},
		{body: fmt.Sprintf(`{"totalTokens":%d}`, math.MaxInt), want: math.MaxInt},
		{body: filler(1 << 20), want: 5},

		{body: filler(1<<20 + 1), err: "reply is larger than 1048576 bytes"},
		{body: `{"totalTokens":9223372036854775808}`, err: no},
		{body: `{"totalTokens":1` + strings.Repeat("0", 5000) + `}`, err: no},
		{body: `{"totalTokens":-1}`, err: no},
		{body: `{"totalTokens":1.0}`, err: no},
		{body: `{"totalTokens":1e3}`, err: no},
		{body: `{"totalTokens":"12"}`, err: no},
		{body: `{"totalTokens":"` + secretKey + `"}`, err: no},
		{body: `{"totalTokens":null}`, err: no},
		{body: `{"totalTokens":true}`, err: no},
		{body: `{"totalTokens":[12]}`, err: no},
		{body: `{"totalTokens":{}}`, err: no},
		{body: `{}`, err: no},
		{body: `null`, err: no},
		{body: `{"totaltokens":12}`, err: no},
		{body: `{"TotalTokens":12}`, err: no},
		{body: `{"reply":{"totalTokens":12}}`, err: no},
		{body: ``, err: malformed},
		{body: `12`, err: malformed},
		{body: `[{"totalTokens":12}]`, err: malformed},
		{body: `"` + secretKey + `"`, err: malformed},
		{body: secretKey, err: malformed},
		{body: `{"totalTokens":12}` + secretKey, err: malformed},
		{body: `{"totalTokens":12} {"totalTokens":13}`, err: malformed},
		{body: `{"totalTokens":12}]`, err: malformed},
		{body: `{"totalTokens":12`, err: malformed},
		{body: `{"totalTokens":+12}`, err: malformed},
		{body: `{"totalTokens":012}`, err: malformed},
		{body: `{"totalTokens":NaN}`, err: malformed},
		{body: `{"totalTokens":0x10}`, err: malformed},
		{body: "\ufeff" + `{"totalTokens":12}`, err: malformed},
		{body: `<html>`, err: malformed},
	} {
		var b *replyBody
		total, err := countOver(func(r *http.Request) (*http.Response, error) {
			response, err := replyingTo(200, strings.NewReader(c.body))(r)
			b = response.Body.(*replyBody)
			return response, err
		})
		if !b.closed.Load() {
			t.Errorf("%.60q: the body was not closed", c.body)
		}
		if c.err != "" {
			if wantKeyless(t, err); err.Error() != c.err || total != 0 {
				t.Errorf("%.60q: got %d, %.300q, want %q", c.body, total, err, c.err)
			}
		} else if err != nil || total != c.want {
			t.Errorf("%.60q: got %d, %v, want %d", c.body, total, err, c.want)
		}
	}
}

// An endless reply, or one that unpacks to that, costs no more than its limit.
func TestCountTokensEndlessReply(t *testing.T) {
	read := 0
	_, err := countOver(replyingTo(200, readFunc(func(p []byte) (int, error) {
		read += len(p)
		return len(p), nil
	})))
	wantKeyless(t, err, "reply is larger than 1048576 bytes")
	if read > 2<<20 {
		t.Errorf("read %d bytes", read)
	}

	var bomb bytes.Buffer
	pack, _ := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	io.Copy(pack, io.LimitReader(endless(" "), 8<<20))
	io.WriteString(pack, `{"totalTokens":1}`)
	pack.Close()
	for _, status := range []int{200, 400} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			w.Write(bomb.Bytes())
		}))
		defer server.Close()
		_, err := gemini{BaseURL: server.URL}.CountTokens(t.Context(), "m", "x")
		wantKeyless(t, err, map[int]string{200: "reply is larger than", 400: "status 400: Bad Request"}[status])
	}
}
