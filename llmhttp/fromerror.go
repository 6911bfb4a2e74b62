package llmhttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// FromError returns the reason why a call failed, by the error of an SDK: a refusal of a
// [Transport] (NotSent, also with Transport.RefuseWithError), or a problem of the provider as
// [Classify] returns it. It returns false for other errors: of the connection, of a context, of
// the program.
//
// It finds a *Problem or a *ratelimit.LimitError, the limiter's own as well; the errors of
// openai-go and anthropic-sdk-go, which have the response, or the error event of a WebSocket; those
// of genai and
// sashabaranov/go-openai, which have the status and the message; those of aws-sdk-go-v2, which have
// methods for these; and any error of the same form.
// Of an error that is text alone, as langchaingo's, it finds the refusal of a Transport, by its
// message. A RetryAfter counts from the answer.
//
// It reads no body and changes nothing, so it may be called more than once and concurrently.
// Return the Problem as an error only with true.
func FromError(err error) (*Problem, bool) {
	if err == nil {
		return nil, false
	}
	var limit *ratelimit.LimitError
	if errors.As(err, &limit) && limit != nil {
		return problemOf(limit), true
	}
	var p *Problem
	if errors.As(err, &p) && p != nil {
		return p, true
	}
	// The text of an error may quote what one that it wraps has in fields, so fields come first.
	for _, read := range []func(error) *Problem{problemInFields, problemInMethods, problemInText} {
		left := maxErrors
		if p := firstIn(err, read, &left); p != nil {
			return p, true
		}
	}
	return nil, false
}

// maxErrors bounds the errors that are examined of a tree of wrapped ones.
const maxErrors = 100

// firstIn returns the first problem that read finds in an error or in those that it wraps.
func firstIn(err error, read func(error) *Problem, left *int) *Problem {
	if *left--; *left < 0 {
		return nil
	}
	if v := reflect.ValueOf(err); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil // a method of it may panic
	}
	if p := read(err); p != nil {
		return p
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return firstIn(err.Unwrap(), read, left)
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			if p := firstIn(err, read, left); p != nil {
				return p
			}
		}
	}
	return nil
}

func problemInText(err error) *Problem { return refusalText(err.Error()) }

// problemInFields returns the problem that the fields of an SDK's error tell; nil if it has none
// of the forms that are known. SDKs agree on no method, but on the names of fields.
func problemInFields(err error) *Problem {
	f, ok := fieldsOf(err)
	if !ok {
		return nil
	}
	if p := f.socketProblem(); p != nil {
		return p
	}
	now := time.Now()
	for _, name := range []string{"Response", "RawResponse"} {
		if resp, ok := field[*http.Response](f, name); ok && resp != nil {
			if p := refusalIn(resp); p != nil {
				return p
			}
			host := ""
			if resp.Request != nil && resp.Request.URL != nil {
				host = resp.Request.URL.Host
			}
			body := f.body(err)
			return classify(max(resp.StatusCode, statusInStream(body)), resp.Header, body, host, now)
		}
	}
	status := 0
	for _, name := range []string{"StatusCode", "HTTPStatusCode", "Code"} {
		if status, ok = field[int](f, name); ok && status != 0 {
			break
		}
	}
	if status < 400 || status > 599 {
		return nil
	}
	message, hasMessage := field[string](f, "Message")
	header, hasHeader := field[http.Header](f, "Header")
	body := f.body(err)
	if !hasMessage && !hasHeader && body == nil {
		return nil // a status alone may be anybody's
	}
	for _, text := range []string{`"` + message, string(body)} {
		// A message that begins with it, not one that quotes it.
		if strings.Contains(text, `"`+refusedText) {
			refused := refusalText(text)
			refused.Status = status
			return refused
		}
	}
	if body == nil {
		body = f.errorObject(message)
	}
	return classify(status, header, body, "", now)
}

// fields is the struct of an error.
type fields struct{ reflect.Value }

// fieldsOf returns the struct that an error is or points to.
func fieldsOf(err error) (fields, bool) {
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return fields{v}, v.Kind() == reflect.Struct
}

// field returns the exported field of a name, if it has exactly the type T.
func field[T any](f fields, name string) (value T, ok bool) {
	at, found := f.Type().FieldByName(name)
	if !found || !at.IsExported() || len(at.Index) != 1 {
		return value, false
	}
	value, ok = f.FieldByIndex(at.Index).Interface().(T)
	return value, ok
}

// body returns the body of the answer, as far as the error keeps it; nil if it does not. What it
// keeps may be the object within "error" alone, as openai-go does.
func (f fields) body(err error) []byte {
	var raw []byte
	if kept, ok := err.(interface{ RawJSON() string }); ok {
		raw = []byte(kept.RawJSON())
	} else if text, ok := field[string](f, "Body"); ok {
		raw = []byte(text)
	} else if raw, ok = field[[]byte](f, "Body"); !ok {
		return nil
	}
	if len(raw) == 0 || len(raw) > maxErrorBody {
		return nil
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(raw, &top) == nil && top["error"] == nil {
		if wrapped, err := json.Marshal(map[string]json.RawMessage{"error": raw}); err == nil {
			return wrapped
		}
	}
	return raw
}

// errorObject returns the body that an error was made of, from those of its fields that Classify
// reads.
func (f fields) errorObject(message string) []byte {
	object := map[string]any{"message": message}
	for _, name := range []string{"Type", "Status"} {
		if s, ok := field[string](f, name); ok {
			object[strings.ToLower(name)] = s
		}
	}
	if code, ok := field[string](f, "Code"); ok { // also in a field of type any
		object["code"] = code
	}
	if details, ok := field[[]map[string]any](f, "Details"); ok {
		object["details"] = details
	}
	body, err := json.Marshal(map[string]any{"error": object})
	if err != nil || len(body) > maxErrorBody {
		return nil
	}
	return body
}
