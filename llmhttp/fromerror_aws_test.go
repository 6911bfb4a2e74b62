package llmhttp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// awsError and awsResponseError are errors of the form of aws-sdk-go-v2's.
type awsError struct{ code, message string }

func (e *awsError) Error() string        { return e.code + ": " + e.message }
func (e *awsError) ErrorCode() string    { return e.code }
func (e *awsError) ErrorMessage() string { return e.message }

type awsResponseError struct {
	status int
	err    error
}

func (e *awsResponseError) Error() string {
	return fmt.Sprintf("https response error StatusCode: %d, %v", e.status, e.err)
}
func (e *awsResponseError) HTTPStatusCode() int { return e.status }
func (e *awsResponseError) Unwrap() error       { return e.err }

func TestFromErrorOfAWS(t *testing.T) {
	coded := func(code string) error { return &awsError{code, "a message"} }
	for _, test := range []struct {
		name string
		err  error
		want string // empty for nothing
	}{
		{"throttled", &awsResponseError{429, coded("ThrottlingException")}, "provider: rate limited (429 ThrottlingException)"},
		{"throttled for the day", &awsResponseError{429, &awsError{"ThrottlingException", "Too many tokens per day, please wait"}}, "provider: daily quota used up (429 ThrottlingException), until "},
		{"throttled in a stream", coded("ThrottlingException"), "provider: rate limited (429 ThrottlingException)"},
		{"not ready", &awsResponseError{429, coded("ModelNotReadyException")}, "provider: overloaded (429 ModelNotReadyException)"},
		{"failed in a stream", coded("ModelStreamErrorException"), "provider: failed (424 ModelStreamErrorException)"},
		{"rejected", &awsResponseError{400, coded("ValidationException")}, "provider: rejected (400 ValidationException)"},
		{"refused by the Transport", &awsResponseError{429, &awsError{"ServiceQuotaExceededException", `go-ratelimit: the call was not sent (rpm_exceeded, signature_age): model "m": requests per minute are used up, free in 6m0s: ` + llmhttp.ErrSignatureAge.Error()}}, `llmhttp: call was not sent (429 rpm_exceeded): model "m": requests per minute are used up, again in 6m0s: the signature of the request would be too old`},
		{"a strange code", &awsResponseError{429, coded("a secret")}, "provider: rate limited (429)"},
		{"no code", &awsResponseError{429, coded("")}, "provider: rate limited (429)"},
		{"a status alone", &awsResponseError{429, errors.New("x")}, ""},
		{"another service in a stream", coded("NoSuchKey"), ""},
		{"an empty code in a stream", coded(""), ""},
		{"an answer with status 200", &awsResponseError{200, coded("ThrottlingException")}, "provider: rate limited (429 ThrottlingException)"},
		{"an odd status", &awsResponseError{999, coded("NoSuchKey")}, ""},
	} {
		p, ok := llmhttp.FromError(fmt.Errorf("operation error Bedrock Runtime: %w", test.err))
		if ok != (test.want != "") {
			t.Errorf("%s: found %v", test.name, p)
		} else if ok && !strings.HasPrefix(p.Error(), test.want) {
			t.Errorf("%s: found %v, want %s", test.name, p, test.want)
		}
	}
}
