package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// fault is why the proxy itself answers a request, with a status of 400 or more.
type fault struct {
	status int
	text   string
}

// kinds are the types of errors as the SDKs know them.
var kinds = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusBadGateway:            "api_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// body is the fault as the SDKs of all providers read it: each finds its own fields.
func (f *fault) body() []byte {
	kind := kinds[f.status]
	if kind == "" {
		kind = "invalid_request_error"
	}
	body, _ := json.Marshal(map[string]any{
		"type":  "error",
		"error": map[string]any{"type": kind, "code": f.status, "message": "ratelimit proxy: " + f.text},
	})
	return body
}

// response returns the fault as the answer to a request.
func (f *fault) response(r *http.Request) *http.Response {
	body := f.body()
	h := http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}}
	if f.status < http.StatusInternalServerError {
		h.Set("X-Should-Retry", "false") // which the SDKs of OpenAI and Anthropic heed
	}
	return &http.Response{
		StatusCode: f.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        h,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}

// closeBehind ends the connection behind the answer to a request whose body is not read. Else the
// server would read that before it answers.
func closeBehind(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// write answers a request with a response that the proxy made.
func write(w http.ResponseWriter, resp *http.Response) {
	for name, values := range resp.Header {
		if len(values) > 0 {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body) //nolint:errcheck // the client is gone
}
