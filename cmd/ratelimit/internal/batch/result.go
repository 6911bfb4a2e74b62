package batch

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// result returns the line of OUT for an answer; false for one that is no JSON.
func (b *Batch) result(c *call, resp *http.Response, body []byte) ([]byte, bool) {
	if len(body) > maxAnswer {
		return nil, false
	}
	id := quote(c.line.id)
	out := bytes.NewBuffer(make([]byte, 0, len(body)+len(id)+160))
	out.WriteString(resultHead)
	out.WriteString(strconv.Itoa(c.line.number))
	out.WriteString(`","custom_id":`)
	out.Write(id)
	out.WriteString(`,"response":{"status_code":`)
	out.WriteString(strconv.Itoa(resp.StatusCode))
	out.WriteString(`,"request_id":`)
	out.Write(quote(string(b.key.hide([]byte(requestID(resp.Header))))))
	out.WriteString(`,"body":`)
	if json.Compact(out, body) != nil {
		return nil, false
	}
	out.WriteString("},\"error\":null}\n")
	return out.Bytes(), true
}

// requestID returns the name that the provider gave to a request; empty for none.
func requestID(h http.Header) string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id", "Apim-Request-Id"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// quote returns a text as a JSON string, in which nothing else is changed.
func quote(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(text) //nolint:errcheck // of a string into memory
	return bytes.TrimRight(b.Bytes(), "\n")
}

// errorBody returns the body of an answer as the file of errors has it.
func errorBody(body []byte) json.RawMessage {
	if len(body) <= maxErrorBody && len(body) > 0 && json.Valid(body) {
		var b bytes.Buffer
		json.Compact(&b, body) //nolint:errcheck // it is valid
		return b.Bytes()
	}
	if len(body) == 0 {
		return nil
	}
	return quote(string(bytes.ToValidUTF8(body[:min(len(body), maxErrorBody)], nil)))
}

// errorLine returns the line of the file of errors for a line that failed: the line with an error,
// which IN ignores, or a line that is no JSON as a string.
func (b *Batch) errorLine(l *line, f *failure) []byte {
	told, err := json.Marshal(f)
	if err != nil {
		told = []byte(`{"code":"unknown"}`)
	}
	all, err := fieldsOf(l.raw)
	var text []byte
	if b.key.in(l.raw) { // of which nothing is left, so that it is not sent with something else there
		all, err = fields{{name: "custom_id", key: []byte(`"custom_id"`), value: quote(l.id)}}, nil
	}
	if err != nil {
		raw := l.raw[:min(len(l.raw), maxRawError)]
		text = append([]byte(`{"input":`), quote(string(bytes.ToValidUTF8(raw, []byte("\uFFFD"))))...)
	} else {
		if l.bare && (all.has("params") || all.has("body")) { // which would be another form with an id
			all = fields{
				{name: "url", key: []byte(`"url"`), value: quote(l.path)}, {name: "body", key: []byte(`"body"`), value: l.body},
			}
		}
		text = all.without("error")
		text = text[:len(text)-1]
		if l.bare && !l.hasID {
			text = append(appendComma(text), `"custom_id":`...)
			text = append(text, quote(l.id)...)
		}
	}
	text = append(appendComma(text), `"error":`...)
	text = append(append(text, told...), '}', '\n')
	return b.key.hide(text)
}

// maxRawError bounds what the file of errors has of a line that is no JSON.
const maxRawError = 64 << 10

func appendComma(text []byte) []byte {
	if len(text) > 1 {
		text = append(text, ',')
	}
	return text
}
