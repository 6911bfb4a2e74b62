package llmhttp

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
)

// withFreshBody returns a request whose body was copied by GetBody, with another copy as its body.
// The copies of some SDKs are no copies: anthropic-sdk-go for Bedrock and for Vertex winds the one
// reader back that is also the body, which then is at its end.
func withFreshBody(req *http.Request) (*http.Request, error) {
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	req.Body.Close()
	send := req.WithContext(req.Context())
	send.Body = body
	return send, nil
}

// formReader is an adapter of calls whose bodies may be forms. Their fields come to its Request as
// the values of a JSON object would.
type formReader interface {
	readsForms()
}

// maxField bounds the bytes that are read of a field.
const maxField = 256

// inspectForm reads the fields of a call whose body is a form, if the adapter takes forms. It
// returns the request to send, whose body is complete. With an error, the body is closed.
func (t *Transport) inspectForm(call *Call, a Adapter) (*http.Request, error) {
	req := call.Request
	mediaType, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if _, ok := a.(formReader); !ok || err != nil || mediaType != "multipart/form-data" || params["boundary"] == "" {
		return req, nil
	}
	read := func(body io.Reader) (whole bool) {
		return readForm(multipart.NewReader(body, params["boundary"]), call, a)
	}
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			read(&contextReader{req.Context(), body})
			body.Close()
			send, err := withFreshBody(req)
			if err != nil {
				req.Body.Close()
				return nil, fmt.Errorf("llmhttp: read request body: %w", err)
			}
			return send, nil
		}
	}
	held := holdBody(req.Context(), req.Body, t.maxBody())
	defer held.release()
	whole := read(held)
	if held.err != nil {
		req.Body.Close()
		return nil, fmt.Errorf("llmhttp: read request body: %w", held.err)
	}
	call.Partial = !whole && !held.whole && call.Model == "" // which may be in the rest
	send := req.WithContext(req.Context())
	head := held.pieces()
	send.Body = &joinedBody{io.MultiReader(head.reader(), req.Body), req.Body}
	return send, nil
}

// readForm passes the fields of a form to an adapter, files excluded, as far as it can be read. It
// reports whether that was to the end.
func readForm(form *multipart.Reader, call *Call, a Adapter) (whole bool) {
	for {
		part, err := form.NextRawPart()
		if err != nil {
			return err == io.EOF
		}
		if name := part.FormName(); name != "" && part.FileName() == "" {
			text, err := io.ReadAll(io.LimitReader(part, maxField))
			if err != nil {
				return false
			}
			a.Request(call, fieldValue(name, string(text)))
		}
	}
}

// fieldValue returns a field of a form as a value of JSON.
func fieldValue(name, text string) Value {
	v := Value{Path: []byte(name), Kind: String, Size: len(text)}
	quoted := strconv.Quote(text)
	v.Text = []byte(quoted[1 : len(quoted)-1])
	if text == "true" || text == "false" {
		v.Kind, v.Size = Bool, 0
	}
	return v
}
