/* What the mock says: the replies of an OpenAI-compatible server, the same to everybody. */
#define ALWAYS "\"created\":1760000000,\"model\":\"mock-model\",\"system_fingerprint\":\"fp_mock\""
#define EVENT "data: {\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\"," ALWAYS ",\"choices\":["

static const char MODELS[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"mock-model\",\"object\":\"model\",\"created\":1760000000,"
    "\"owned_by\":\"mock\"}]}";
static const char COMPLETION[] =
    "{\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion\"," ALWAYS ",\"choices\":[{\"index\":0,"
    "\"message\":{\"role\":\"assistant\",\"content\":\"This is what the mock says to everybody. It was written down "
    "beforehand, it is about as long as sixty-four tokens of a real answer, and it never changes: so the time that a "
    "request takes is the time that its way takes.\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
    "\"usage\":{\"prompt_tokens\":24,\"completion_tokens\":64,\"total_tokens\":88}}";
static const char STREAM_HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";
static const char STREAM_EVENT[] =
    EVENT "{\"index\":0,\"delta\":{%s\"content\":\"word%d \"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
static const char STREAM_END[] =
    EVENT "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n"
    EVENT "],\"usage\":{\"prompt_tokens\":24,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n";
static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
static const char NOTHING_HERE[] = "{\"error\":{\"message\":\"there is no such thing here\"}}";
static const char NO_REQUEST[] = "{\"error\":{\"message\":\"this is no request\"}}";
