/*
 * An upstream that costs next to nothing, so that what is measured is the gateway in front of it.
 *
 *     mock PORT [GAP_MS [CHUNKS]]
 *
 * It speaks the part of the OpenAI API that a load needs, on 127.0.0.1, in one thread:
 *     GET /v1/models             a list with "mock-model"
 *     POST, any path             a chat.completion with a Content-Length
 *     POST with "stream": true   CHUNKS events (20), each one write and one HTTP chunk, GAP_MS (0) apart; then, in a
 *                                last write, the end, the usage and [DONE]
 *
 * PORT 0 takes a free one. Once it listens it says so: {"url": "http://127.0.0.1:PORT"}. SIGTERM ends it.
 *
 * How a connection goes: bytes come in and are kept until a request is whole; go_on() answers it, and only when the
 * answer has left does it look at the next one. What a socket does not take is kept until epoll says that it can.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mock_words.h"

enum { HEAD_MOST = 64 * 1024, BODY_MOST = 64 * 1024 * 1024, READ_BYTES = 16 * 1024, EVENTS = 256, BACKLOG = 1024 };

/* Bytes that grow at their end. */
struct bytes {
    char *at;
    size_t length, room;
};

struct connection {
    struct bytes in, out;  /* received and not answered; said, and `taken` by the socket in part */
    size_t taken;
    int fd, said;          /* `said`: events of the stream under way */
    bool streaming;
    bool told_to_continue; /* this request's Expect has been answered */
    bool last;             /* the connection ends with the reply under way */
    bool gone;             /* go_on() closes it */
    bool in_line;          /* for its next event, which is due at `due_ms` */
    double due_ms;
    struct connection *before, *after;
};

/* A whole request: `length` bytes of what came in, and its body, joined if it came in chunks. */
struct request {
    size_t length, body_length;
    const char *body;
};

enum verdict { INCOMPLETE, WHOLE, WRONG };

static int epoll, gap_ms = 0, chunks = 20;
/* Connections whose next event is due later. The gap is the same for all, so the first in line is due first. */
static struct connection *line_first, *line_last;

static void quit(const char *what) {
    perror(what);
    exit(1);
}

static void make_room(struct bytes *bytes, size_t more) {
    if (bytes->length + more <= bytes->room)
        return;
    bytes->room = 2 * (bytes->length + more);
    if (!(bytes->at = realloc(bytes->at, bytes->room)))
        quit("memory");
}

static void append(struct bytes *bytes, const char *data, size_t length) {
    make_room(bytes, length);
    memcpy(bytes->at + bytes->length, data, length);
    bytes->length += length;
}

/* Send as much as the socket takes; returns how much that was. */
static size_t send_some(struct connection *c, const char *data, size_t length) {
    size_t sent = 0;
    while (sent < length && !c->gone) {
        ssize_t taken = send(c->fd, data + sent, length - sent, MSG_NOSIGNAL);
        if (taken >= 0)
            sent += (size_t)taken;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            c->gone = true;
    }
    return sent;
}

static void watch(struct connection *c, int how, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(epoll, how, c->fd, &event);
}

static void say(struct connection *c, const char *data, size_t length) {
    size_t sent = c->out.length ? 0 : send_some(c, data, length);
    if (sent == length || c->gone)
        return;
    append(&c->out, data + sent, length - sent);
    watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

/* The socket takes bytes again. */
static void say_the_rest(struct connection *c) {
    c->taken += send_some(c, c->out.at + c->taken, c->out.length - c->taken);
    if (c->taken == c->out.length) {
        c->taken = c->out.length = 0;
        watch(c, EPOLL_CTL_MOD, EPOLLIN);
    }
}

static void say_reply(struct connection *c, const char *status, const char *body) {
    static const char form[] = "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n%s";
    char reply[2048];
    const char *ending = c->last ? "Connection: close\r\n" : "";
    say(c, reply, (size_t)snprintf(reply, sizeof reply, form, status, strlen(body), ending, body));
}

/* Say the next event of a stream, or its end. */
static void say_event(struct connection *c) {
    char event[1024], chunk[1100];
    c->streaming = c->said < chunks;
    if (c->streaming)
        snprintf(event, sizeof event, STREAM_EVENT, c->said ? "" : "\"role\":\"assistant\",", c->said);
    else
        snprintf(event, sizeof event, STREAM_END, chunks, 24 + chunks);
    c->said++;
    int size = snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n%s", strlen(event), event, c->streaming ? "" : "0\r\n\r\n");
    say(c, chunk, (size_t)size);
}

static double now_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static void line_up(struct connection *c) {
    c->due_ms = now_ms() + gap_ms;
    c->in_line = true;
    c->before = line_last, c->after = NULL;
    *(line_last ? &line_last->after : &line_first) = c;
    line_last = c;
}

static void leave_line(struct connection *c) {
    *(c->before ? &c->before->after : &line_first) = c->after;
    *(c->after ? &c->after->before : &line_last) = c->before;
    c->in_line = false;
}

/* The value of a header field, or NULL. Every line from `head` to `end` ends with CR LF, and so does the value. */
static const char *field(const char *head, const char *end, const char *name) {
    size_t length = strlen(name);
    for (const char *line = head; line < end; line = (char *)memmem(line, (size_t)(end - line), "\r\n", 2) + 2)
        if (!strncasecmp(line, name, length) && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " \t");
    return NULL;
}

/* A number of bytes, as a Content-Length or a chunk has it; false if it is none or too large. */
static bool read_size(const char *text, int radix, size_t *size) {
    char *end;
    *size = isxdigit((unsigned char)*text) ? strtoull(text, &end, radix) : BODY_MOST + 1;
    return *size <= BODY_MOST && (*end == '\r' || *end == ' ' || *end == ';');
}

/* Join a chunked body that begins `at` bytes into what came in. It is walked anew whenever more has come. */
static enum verdict join_chunks(const struct bytes *in, size_t at, struct request *request) {
    static struct bytes joined;
    joined.length = 0;
    for (size_t size = 1; size; at += size + 2) {
        const char *line = in->at + at, *end = memmem(line, in->length - at, "\r\n", 2);
        if (end && !read_size(line, 16, &size))
            return WRONG;
        at += end ? (size_t)(end - line) + 2 : 0;
        if (!end || in->length - at < size + 2)
            return INCOMPLETE;
        if (memcmp(in->at + at + size, "\r\n", 2)) /* no trailers here */
            return WRONG;
        append(&joined, in->at + at, size);
    }
    *request = (struct request){.length = at, .body = joined.at, .body_length = joined.length};
    return WHOLE;
}

/* Find the first request in what came in, if all of it is there. Answers an Expect on the way. */
static enum verdict read_request(struct connection *c, struct request *request) {
    const char *head = c->in.at, *end = memmem(head, c->in.length, "\r\n\r\n", 4);
    if (!end)
        return c->in.length > HEAD_MOST ? WRONG : INCOMPLETE;
    size_t head_length = (size_t)(end + 4 - head), size = 0;
    const char *fields_end = end + 2, *length = field(head, fields_end, "content-length");
    const char *coding = field(head, fields_end, "transfer-encoding"), *expect = field(head, fields_end, "expect");
    const char *connection = field(head, fields_end, "connection");
    c->last = (connection && !strncasecmp(connection, "close", 5)) || memmem(head, head_length, " HTTP/1.0\r\n", 11);
    enum verdict verdict = WRONG;
    if (coding && !length && !strncasecmp(coding, "chunked\r", 8)) {
        verdict = join_chunks(&c->in, head_length, request);
    } else if (!coding && (!length || read_size(length, 10, &size))) {
        verdict = c->in.length - head_length < size ? INCOMPLETE : WHOLE;
        *request = (struct request){.length = head_length + size, .body = end + 4, .body_length = size};
    }
    if (verdict == INCOMPLETE && expect && !c->told_to_continue && !strncasecmp(expect, "100-continue", 12)) {
        c->told_to_continue = true;
        say(c, CONTINUE, sizeof CONTINUE - 1);
    }
    return verdict;
}

/* Whether a JSON body says "stream": true. In a string its quotes would have backslashes, so no parser is needed. */
static bool wants_stream(const char *body, size_t length) {
    const char *end = body + length, *at = length ? memmem(body, length, "\"stream\"", 8) : NULL;
    for (at = at ? at + 8 : end; at < end && (isspace((unsigned char)*at) || *at == ':');)
        at++;
    return end - at >= 4 && !memcmp(at, "true", 4);
}

static void answer(struct connection *c, const struct request *request) {
    bool posted = !memcmp(c->in.at, "POST ", 5);
    c->said = 0;
    c->streaming = posted && wants_stream(request->body, request->body_length);
    if (c->streaming)
        say(c, STREAM_HEAD, sizeof STREAM_HEAD - 1);
    else if (posted)
        say_reply(c, "200 OK", COMPLETION);
    else if (!memcmp(c->in.at, "GET /v1/models ", 15))
        say_reply(c, "200 OK", MODELS);
    else
        say_reply(c, "404 Not Found", NOTHING_HERE);
}

/* Take the next request, if it is there; false if nothing can be done before more comes in. */
static bool next_request(struct connection *c) {
    struct request request = {0};
    enum verdict verdict = read_request(c, &request);
    c->last = verdict == WRONG || (verdict == WHOLE && c->last);
    if (verdict == WRONG) {
        say_reply(c, "400 Bad Request", NO_REQUEST);
    } else if (verdict == WHOLE) {
        answer(c, &request);
        c->told_to_continue = false;
        c->in.length -= request.length;
        memmove(c->in.at, c->in.at + request.length, c->in.length);
    }
    return verdict != INCOMPLETE;
}

/* Do what can be done for a connection now, its closing too: the one place that decides what comes next. */
static void go_on(struct connection *c) {
    bool more = true;
    while (more && !c->gone && !c->out.length && !c->in_line) {
        if (c->streaming) {
            say_event(c);
            if (c->streaming && gap_ms)
                line_up(c);
        } else if (c->last) {
            c->gone = true;
        } else {
            more = next_request(c);
        }
    }
    if (!c->gone)
        return;
    if (c->in_line)
        leave_line(c);
    close(c->fd);
    free(c->in.at);
    free(c->out.at);
    free(c);
}

/* Something has happened to a connection: there is room to say the rest, or bytes or its end came in. */
static void serve(struct connection *c, uint32_t events) {
    if (events & EPOLLOUT)
        say_the_rest(c);
    make_room(&c->in, READ_BYTES);
    ssize_t got = recv(c->fd, c->in.at + c->in.length, READ_BYTES, 0);
    c->in.length += got > 0 ? (size_t)got : 0;
    c->gone |= got == 0 || (got < 0 && errno != EAGAIN) || c->in.length > 2 * (size_t)BODY_MOST;
    go_on(c);
}

static void greet(int listener) {
    int one = 1, fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct connection *c = calloc(1, sizeof *c);
        if (!c)
            quit("memory");
        c->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
}

/* Let those go on whose time has come; the milliseconds until the next one's, -1 without any. */
static int serve_the_line(void) {
    for (struct connection *c; (c = line_first);) {
        double left_ms = c->due_ms - now_ms();
        if (left_ms > 0)
            return (int)left_ms + 1;
        leave_line(c);
        go_on(c);
    }
    return -1;
}

static int listen_on(int port) {
    struct sockaddr_in address = {AF_INET, htons((uint16_t)port), {htonl(INADDR_LOOPBACK)}, {0}};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, BACKLOG))
        quit("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("{\"url\": \"http://127.0.0.1:%d\"}\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **words) {
    if (count < 2)
        return fputs("usage: mock PORT [GAP_MS [CHUNKS]]\n", stderr), 2;
    gap_ms = count > 2 ? atoi(words[2]) : gap_ms;
    chunks = count > 3 ? atoi(words[3]) : chunks;
    epoll = epoll_create1(0);
    int listener = listen_on(atoi(words[1]));
    struct epoll_event events[EVENTS] = {{.events = EPOLLIN, .data.ptr = NULL}}; /* NULL: the listener */
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &events[0]);
    for (;;) {
        int happened = epoll_wait(epoll, events, EVENTS, serve_the_line());
        for (int i = 0; i < happened; i++) {
            struct connection *c = events[i].data.ptr;
            if (c)
                serve(c, events[i].events);
            else
                greet(listener);
        }
    }
}
