// view/web.h: what the page of maps is made of: the files of src/view/web, put into C by cmake/embed.cmake.
#ifndef VIEW_WEB_H
#define VIEW_WEB_H

extern const char view_web_css[], view_web_body[], view_web_model[], view_web_layout[],
    view_web_draw[], view_web_app[];

#endif
