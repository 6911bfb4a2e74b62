package llmhttp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// defaultMaxBody is Transport.MaxBody where nothing is said.
const defaultMaxBody = 16 << 20

// pieces are the buffers through which bodies are read.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// inspection reads what a request's body tells.
type inspection struct {
	call    *Call
	adapter Adapter
	scan    *scanner
	hidden  int // bytes of media, which are no text
}

// recognize finds the adapter of a request; nil when it is no call to a model.
func (t *Transport) recognize(req *http.Request, call *Call) Adapter {
	for _, all := range [...][]Adapter{t.Adapters, adapters} {
		for _, a := range all {
			*call = Call{Request: req, BodySize: -1}
			if a.Match(req, call) {
				call.Adapter = a.Name()
				return a
			}
		}
	}
	return nil
}

// inspect reads the body of a call and sets what it tells. It returns the request that is
// to be sent, whose body is still whole: where there is no GetBody, that is a copy of
// the request with what was read in front of the rest. With an error the body is closed.
func (t *Transport) inspect(call *Call, a Adapter) (*http.Request, error) {
	req := call.Request
	if req.Body == nil || req.Body == http.NoBody {
		call.BodySize = 0
		return req, nil
	}
	in := inspection{call: call, adapter: a}
	in.scan = newScanner(in.tell)
	defer in.scan.release()
	size, send, err := int64(0), req, error(nil)
	copied := false
	if req.GetBody != nil {
		size, copied, err = in.readCopy(req.GetBody, t.maxBody())
	}
	if !copied {
		send, size, err = in.readAhead(req, t.maxBody())
	}
	if err != nil {
		req.Body.Close()
		return nil, fmt.Errorf("llmhttp: read request body: %w", err)
	}
	call.BodySize, call.Partial = size, size > t.maxBody()
	if call.Partial {
		call.BodySize = req.ContentLength
		if call.BodySize <= 0 {
			call.BodySize = size
		}
	}
	in.scan.end()
	call.PromptBytes = in.scan.strings - in.hidden
	call.Model = modelName(call.Model)
	return send, nil
}

// readCopy reads a copy of the body, up to a byte more than most, if there is one.
func (in *inspection) readCopy(getBody func() (io.ReadCloser, error), most int64) (size int64, ok bool, err error) {
	body, err := getBody()
	if err != nil {
		return 0, false, nil
	}
	defer body.Close()
	size, err = in.read(body, most, nil)
	return size, true, err
}

// readAhead reads the body itself, up to a byte more than most, and keeps what it read.
func (in *inspection) readAhead(req *http.Request, most int64) (send *http.Request, size int64, err error) {
	var head bytes.Buffer
	size, err = in.read(req.Body, most, &head)
	if err != nil {
		return nil, 0, err
	}
	send = req.WithContext(req.Context())
	read := head.Bytes()
	if size > most {
		send.Body = &joinedBody{io.MultiReader(bytes.NewReader(read), req.Body), req.Body}
		return send, size, nil
	}
	send.Body = &joinedBody{bytes.NewReader(read), req.Body}
	send.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(read)), nil }
	return send, size, nil
}

func (in *inspection) read(body io.Reader, most int64, keep *bytes.Buffer) (size int64, err error) {
	piece := pieces.Get().(*[32 << 10]byte)
	defer pieces.Put(piece)
	for size <= most {
		n, err := body.Read(piece[:min(int64(len(piece)), most+1-size)])
		in.scan.feed(piece[:n])
		if keep != nil {
			keep.Write(piece[:n])
		}
		size += int64(n)
		if err == io.EOF {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
	return size, nil
}

// joinedBody is a body that was read in part, and is closed as it was.
type joinedBody struct {
	io.Reader
	io.Closer
}

// mediaKeys are the names of fields whose strings are images, sounds or files, or say
// where these are.
var mediaKeys = map[string]bool{
	"data": true, "file_data": true, "url": true, "image_url": true, "images": true,
	"file_id": true, "fileUri": true, "file_uri": true, "bytesBase64Encoded": true,
}

// shortest string that counts as data for what it is called: tools may have fields of that name.
const leastData = 256

func (in *inspection) tell(v Value) {
	if v.Kind == String && isMedia(&v) {
		in.call.Media++
		in.hidden += v.Size
	}
	if v.Path != nil {
		in.adapter.Request(in.call, v)
	}
}

func isMedia(v *Value) bool {
	if bytes.HasPrefix(v.Text, []byte("data:")) {
		return true
	}
	key := v.Path[bytes.LastIndexByte(v.Path, '.')+1:]
	if !mediaKeys[string(key)] {
		return false
	}
	return v.Size >= leastData || bytes.HasPrefix(v.Text, []byte("https://")) || bytes.HasPrefix(v.Text, []byte("gs://")) || strings.HasSuffix(string(key), "_id")
}
